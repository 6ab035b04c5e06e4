"""Rows to be predicted that lie on an object store: the same predictions as for a file of this machine."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from recnas.cli.main import main
from recnas.data.prepare.prepare import prepare
from recnas.data.raw import remote
from tests.unit.data.prepare.vector_logs import RECIPE, log_of

fsspec = pytest.importorskip("fsspec")


def test_rows_to_predict(tmp_path: Path, train_small, capsys):
    remote._filesystem.cache_clear()
    store = fsspec.filesystem("memory", use_listings_cache=False)
    (tmp_path / "r.yaml").write_text("\n".join(line for line in RECIPE.splitlines() if not line.startswith("vectors")))
    log_of(tmp_path, 900)
    run = train_small(
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "d"), tmp_path / "run", seeds=1
    )
    rows = log_of(tmp_path, 50, seed=5)
    store.pipe("memory://new/rows.csv.gz", gzip.compress(rows.read_bytes()))
    try:
        for raw, out in (("memory://new/rows.csv.gz", "there"), (str(rows), "here")):
            assert main(["predict", str(run), "--raw", raw, "--out", str(tmp_path / f"{out}.csv"), "--quiet"]) == 0
        assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
        assert len((tmp_path / "here.csv").read_text().splitlines()) == 51
        capsys.readouterr()
        assert main(["predict", str(run), "--raw", "memory://new/none.csv", "--out", str(tmp_path / "o.csv")]) == 2
        assert "There is no file memory://new/none.csv" in capsys.readouterr().err
    finally:
        store.store.clear()
