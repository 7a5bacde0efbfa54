"""The lines by which the README and docs/pytorch.md begin start a group, as they stand there."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
RANKS = 2
LIMIT_S = 120
AFTERWARDS = """
import torch, torch.distributed
total = torch.ones(3)
torch.distributed.all_reduce(total)
assert total.tolist() == [2, 2, 2], total
assert torch.distributed.get_backend() == "tutti"
torch.distributed.destroy_process_group()
print("the ranks have added")
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Documents(unittest.TestCase):
    def test_the_first_lines_start_a_group(self):
        for page in ("README.md", "docs/pytorch.md"):
            blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
            first, = [block for block in blocks if 'init_process_group("tutti")' in block]
            with self.subTest(page):
                self.run_on_ranks("import tutti_torch\n" + first + AFTERWARDS)  # run.sh turns PyTorch's own import off

    def run_on_ranks(self, program):
        job = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ranks = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", program], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, env=os.environ | job | {"RANK": str(rank)})
                 for rank in range(RANKS)]
        for rank in ranks:
            output, _ = rank.communicate(timeout=LIMIT_S)
            self.assertEqual(rank.returncode, 0, output)
            self.assertIn("the ranks have added", output)


if __name__ == "__main__":
    unittest.main()
