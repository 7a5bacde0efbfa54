"""Tests scripts/gpu_kit/results.py: which results of the kit stay in the repository."""
import importlib.util
import json
import pathlib
import tempfile
import unittest
from contextlib import redirect_stdout
from io import StringIO

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu_kit/results.py"


def step(name, status, date, **more):
    return {"name": name, "status": status, "date": date, "key": f"{name}_{date}", "gpus": "NVIDIA H100 80GB HBM3",
            "machine": f"machine of {date}", **more}


class KeptResults(unittest.TestCase):
    def setUp(self):
        spec = importlib.util.spec_from_file_location("results", SCRIPT)
        self.results = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.results)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results.KEPT = pathlib.Path(folder.name) / "kept"
        self.run = pathlib.Path(folder.name) / "run"
        self.run.mkdir()

    def keep(self, *steps, **header):
        data = {"group": "measure", "rehearsal": False, "steps": steps, **header}
        (self.run / "gpu_measure.json").write_text(json.dumps(data), encoding="utf-8")
        with redirect_stdout(StringIO()):
            self.results.keep(self.run)

    def kept(self, folder="h100_80gb_hbm3"):
        data = json.loads((self.results.KEPT / folder / "gpu_measure.json").read_text(encoding="utf-8"))
        return {each["name"]: each for each in data["steps"]}

    def settled(self):
        with redirect_stdout(StringIO()) as printed:
            self.results.settled()
        return printed.getvalue().split()

    def test_kinds_of_gpus_do_not_mix(self):
        names = ["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
                 "NVIDIA H100 PCIe\nNVIDIA H100 PCIe"]
        for name in names:
            self.keep(step("a", "ok", "2026-01-01", gpus=name))
        self.assertEqual(sorted(path.name for path in self.results.KEPT.iterdir()),
                         ["2_h100_pcie", "h100_80gb_hbm3", "h100_80gb_hbm3_mig_1g_10gb", "h100_nvl", "h100_pcie"])

    def test_each_step_keeps_its_machine(self):
        self.keep(step("a", "ok", "2026-01-01"), step("b", "ok", "2026-01-01"))
        self.keep(step("b", "ok", "2026-01-02"))
        self.assertEqual({name: each["machine"] for name, each in self.kept().items()},
                         {"a": "machine of 2026-01-01", "b": "machine of 2026-01-02"})

    def test_the_first_results_name_the_machine_once(self):
        path = self.results.KEPT / "h100_80gb_hbm3/gpu_measure.json"
        path.parent.mkdir(parents=True)
        old = {"name": "a", "status": "ok", "date": "2025-01-01"}
        path.write_text(json.dumps({"machine": "old", "nvidia_smi": "smi", "steps": [old]}), encoding="utf-8")
        self.keep(step("b", "ok", "2026-01-01"))
        self.assertEqual(self.kept()["a"], {"machine": "old", "nvidia_smi": "smi", **old})

    def test_a_failure_stands_beside_an_earlier_success(self):
        good, bad = step("a", "ok", "2026-01-01"), step("a", "FAILED: exit status 1", "2026-01-02")
        self.keep(good)
        for _ in range(2):
            self.keep(bad)
            self.assertEqual(self.kept()["a"], dict(good, failed_since=bad))
        self.keep(good)
        self.assertEqual(self.kept()["a"], dict(good, failed_since=bad))
        self.assertEqual(self.settled(), [good["key"]])
        self.keep(step("a", "FAILED: exit status 1", "2026-01-03", key=good["key"]))
        self.assertEqual(self.settled(), [])
        better = step("a", "ok", "2026-01-04")
        self.keep(better)
        self.assertEqual(self.kept()["a"], better)

    def test_older_results_and_left_out_steps_replace_nothing(self):
        newer = step("a", "ok", "2026-01-02")
        self.keep(newer, step("b", "FAILED: exit status 1", "2026-01-02"))
        self.keep(step("a", "ok", "2026-01-01"), step("b", "left out: no time", "2026-01-03"))
        self.assertEqual(self.kept()["a"], newer)
        self.assertTrue(self.kept()["b"]["status"].startswith("FAILED"))

    def test_a_rehearsal_is_refused(self):
        with self.assertRaises(SystemExit):
            self.keep(step("a", "ok", "2026-01-01"), rehearsal=True)


if __name__ == "__main__":
    unittest.main()
