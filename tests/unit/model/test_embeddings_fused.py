"""Loading the kernels: what a broken installation says, and what a good one leaves untouched."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
import torch

from recnas.data.schema import Schema
from recnas.errors import BackendMissing
from recnas.model.embeddings import build_embeddings, fused
from recnas.model.embeddings.factory import choose_backend

SCHEMA = Schema.of_shape(0, [5, 6])


@pytest.mark.parametrize("error", [OSError("lib.so: undefined symbol"), ImportError("No module"), RuntimeError("ABI")])
def test_a_broken_triple_is_one_sentence(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise error

    monkeypatch.setattr(fused, "_loaded", None)
    monkeypatch.setattr(fused, "_import_kernels", broken)
    for _ in range(2):  # the second time from memory: a half-imported library fails differently
        with pytest.raises(BackendMissing, match=r"torch 2\.13, torchrec 1\.8 and fbgemm 1\.8") as caught:
            build_embeddings(SCHEMA, backend="fused")
        assert str(error) in str(caught.value)
    assert build_embeddings(SCHEMA).backend == "plain"


def test_import_of_a_missing_library_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "_loaded", None)
    monkeypatch.setitem(sys.modules, "fbgemm_gpu", None)
    with pytest.raises(BackendMissing):
        fused.load_kernels()


def test_auto_takes_the_faster_backend_of_the_device() -> None:
    assert build_embeddings(SCHEMA).backend == "plain"
    assert choose_backend(torch.device("cuda"), 16, 26) == "fused"
    assert choose_backend(torch.device("cuda"), 6, 26) == "plain"


def test_building_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    build_embeddings(SCHEMA, backend="fused")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.spawns
def test_a_first_step_prints_nothing_and_leaves_logging_alone() -> None:
    code = (
        "import logging, torch\n"
        "from recnas.data.schema import Schema\n"
        "from recnas.model.embeddings import build_embeddings\n"
        "tables = build_embeddings(Schema.of_shape(0, [5, 6]), backend='fused')\n"
        "lookup = tables.begin(torch.ones(3, 2, dtype=torch.int64))\n"
        "lookup.leaf.sum().backward(); lookup.apply(); tables.set_lr(0.1)\n"
        "assert not logging.getLogger().handlers\n"
    )
    done = subprocess.run([sys.executable, "-W", "always::UserWarning", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_quiet_restores_logging() -> None:
    before = list(logging.getLogger().handlers)
    with fused._quiet():
        logging.info("import-time chatter")
    assert logging.getLogger().handlers == before
