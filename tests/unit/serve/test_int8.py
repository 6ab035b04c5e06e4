"""Exports with tables of 8-bit numbers: what is rounded, and that the figures of what it costs are true."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score

from recnas.serve.export import export
from recnas.serve.int8 import Int8Rows
from recnas.serve.load import load_trained
from recnas.serve.program import read_program


def by_hand(table: np.ndarray) -> np.ndarray:
    """Each row rounded to steps of a 127th of its largest value."""
    out = np.zeros_like(table)
    for number, row in enumerate(table):
        if step := np.float32(abs(row).max()) / np.float32(127):
            out[number] = np.round(row / step) * step
    return out


def test_rows_are_rounded_one_by_one():
    table = torch.randn(50, 7, generator=torch.Generator().manual_seed(1)) * torch.logspace(-6, 6, 50)[:, None]
    table[3] = 0.0
    small = Int8Rows.of(table)
    assert small.values.dtype == torch.int8
    np.testing.assert_allclose(small.floats(), by_hand(table.numpy()), rtol=1e-6)
    assert ((small.floats() - table).abs() <= small.factors / 2 * 1.0001).all()
    assert small.nbytes == 50 * (7 + 4)
    rows = torch.tensor([3, 49, 49])
    assert torch.equal(small.index_select(0, rows), small.floats()[rows])
    again = Int8Rows.of(small.floats())  # which is what a program holds
    assert torch.equal(again.values, small.values)


def test_an_export_with_small_tables(trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("recnas.serve.export.check_raw_rows", lambda *_: {})  # which test_export.py is about
    result = export(f"{trained_run}:best", "pt2", tmp_path / "small", int8=True)
    export(f"{trained_run}:best", "pt2", tmp_path / "whole")
    about = json.loads((tmp_path / "small" / "model.json").read_text())
    assert about["program"]["int8"] == result["int8"]
    assert "int8" not in json.loads((tmp_path / "whole" / "model.json").read_text())["program"]

    model = load_trained(f"{trained_run}:best")
    data = model.data()
    (table,) = (stack.numpy() for stack in model.tables.stacks)
    saved = (tmp_path / "whole" / "model.pt2").stat().st_size - (tmp_path / "small" / "model.pt2").stat().st_size
    tables = result["int8"]["tables"]
    assert tables == {"bytes_before": table.nbytes, "bytes": table.size + 4 * len(table)}
    assert saved == pytest.approx(tables["bytes_before"] - tables["bytes"], abs=5000)

    dense, ids = (
        torch.from_numpy(np.asarray(data.array("valid", "dense"))),
        torch.from_numpy(np.asarray(data.array("valid", "ids")).astype(np.int64)),
    )
    label = np.asarray(data.array("valid", "label"))
    before = model.predict(dense, ids).numpy()
    model.tables.stacks = (torch.from_numpy(by_hand(table)),)
    after = model.predict(dense, ids).numpy()
    assert np.abs(after - before).max() > 1e-5  # it is not for nothing
    found = read_program(tmp_path / "small" / "model.pt2")(dense, ids)
    np.testing.assert_allclose(found, after, atol=1e-6)
    assert result["int8"]["rows"] == len(label)
    for name, measure in (("logloss", log_loss), ("auc", roc_auc_score)):
        figures = result["int8"][name]
        assert figures["before"] == pytest.approx(measure(label, before), abs=1e-6)
        assert figures["after"] == pytest.approx(measure(label, after), abs=1e-6)
