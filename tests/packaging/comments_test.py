#!/usr/bin/env python3
"""Checks that comments name only files that exist.

    comments_test.py SOURCE_DIR
"""
import pathlib
import re
import subprocess
import sys

SOURCES = (".h", ".cc", ".cu", ".cuh")
# Files of others, which comments may name.
OUTSIDE = {
    "cuda.h", "cuda_profiler_api.h", "foreach_target.h", "mpi.h", "nccl_device.h", "p2p_communication.py",
    "parallel_state.py", "ucp.h", "verbs.h", "plugins/net/README.md"
}
COMMENT = re.compile(r"//.*|^\s*/?\*.*")
NAME = re.compile(r"(?<![\w/.*<-])((?:[\w.-]+/)*[\w*-]+\.(?:h|cc|cu|cuh|py|sh|md|cmake))\b(?![\w(])")

root = pathlib.Path(sys.argv[1])
# Without git, as in an archive of the sources, build folders are left out by name.
listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=False).stdout.split()
files = listed or [str(path.relative_to(root)) for path in root.rglob("*") if "build" not in path.parts]
endings = {"/".join(pathlib.PurePath(file).parts[-depth:]) for file in files for depth in range(1, file.count("/") + 2)}

missing = []
for file in files:
    if not file.endswith(SOURCES) or not (root / file).exists():
        continue
    for number, line in enumerate((root / file).read_text(errors="replace").splitlines(), 1):
        comment = COMMENT.search(line)
        for name in NAME.findall(comment.group()) if comment else []:
            plain = re.sub(r"^(\.\./)+", "", name)
            if plain not in endings and not OUTSIDE & {plain, pathlib.PurePath(plain).name}:
                missing.append(f"{file}:{number}: there is no {name}")
print("\n".join(missing) or f"the comments of {len(files)} files name files that exist")
sys.exit(1 if missing else 0)
