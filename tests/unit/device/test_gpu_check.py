"""`scripts/gpu_check` says that there is no GPU rather than that all is well, and its table tells what failed."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

SCRIPT = Path(__file__).parents[3] / "scripts" / "gpu_check"


@pytest.mark.spawns
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_nothing_is_checked_and_the_exit_code_is_2(tmp_path: Path):
    command = [sys.executable, str(SCRIPT), "--out", str(tmp_path / "table.md")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "sees no CUDA device, so nothing was checked" in done.stderr
    assert not (tmp_path / "table.md").exists()


def report(name: str, outcome: str, longrepr: Any = None, when: str = "call", **facts: Any) -> Any:
    return SimpleNamespace(
        nodeid=f"tests/unit/device/test_cuda.py::test_{name}", outcome=outcome, passed=outcome == "passed",
        longrepr=longrepr, when=when, user_properties=list(facts.items()),
    )  # fmt: skip


def test_the_table_has_a_line_for_every_test():
    loader = SourceFileLoader("gpu_check", str(SCRIPT))
    module = module_from_spec(spec_from_loader(loader.name, loader))  # type: ignore[arg-type]
    loader.exec_module(module)
    table = module.Table()
    for one in (
        report("proxy[zen-clicks]", "passed", when="setup"),
        report("proxy[zen-clicks]", "passed", difference=2.5e-7),
        report("tables[fused]", "failed", "def test():\n>   x\nE   assert 3 | 4", difference=0.5),
        report("latency", "passed", latency_ms_1=0.25),
        report("resumed", "skipped", ("file", 3, "Skipped: no fbgemm"), when="setup"),
    ):
        table.pytest_runtest_logreport(one)
    text = table.markdown(["A card"])
    assert "| proxy[zen-clicks] | passed | 2.5e-07 |  |" in text
    assert "| tables[fused] | failed | 5.0e-01 | assert 3 / 4 |" in text
    assert "| latency | passed |  | latency_ms_1 0.25 |" in text
    assert "| resumed | skipped |  | Skipped: no fbgemm |" in text
    assert text.endswith("2 of 4 as on the CPU\n")
