"""The space nasrec-plus goes through every command: search, warm-up, score, cost, draw, export, predict, compare."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from recnas.baselines.base import InputShape
from recnas.baselines.encoded import encode
from recnas.cli.main import main
from recnas.serve.load import load_trained
from recnas.space.nasrec.json import dump_arch, load_arch
from tests.jobs.search_helpers import as_yaml, small_search

SPACE = {"name": "nasrec-plus", "blocks": 2}


@pytest.fixture(scope="module")
def finished(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plus")
    config = as_yaml(small_search(criteo_data.path, space=SPACE), folder / "plus.yaml")
    assert main(["search", str(config), "--out", str(folder / "run"), "--workers", "1", "--quiet"]) == 0
    return folder / "run"


def test_score_cost_draw_report_and_export(finished: Path, criteo_data, criteo_file: Path, tmp_path: Path, capsys):
    warm = finished / "warmup"
    assert main(["score", str(warm), "--random", "3", "--workers", "1", "--quiet", "batches=2", "batch_size=64"]) == 0
    assert main(["cost", f"{finished}:best", "--data", str(criteo_data.path)]) == 0
    assert main(["draw", f"{finished}:best", "-o", str(tmp_path / "best.svg")]) == 0
    assert main(["report", str(finished), "-o", str(tmp_path / "report.html")]) == 0
    served = tmp_path / "served"
    assert main(["export", f"{finished}:best", "--to", "pt2", "--out", str(served)]) == 0
    capsys.readouterr()
    row = criteo_file.read_text().splitlines()[0] + "\n"
    given = subprocess.run(
        [sys.executable, str(served / "score_row.py")], input=row, capture_output=True, text=True, check=True
    )
    assert 0 < float(given.stdout) < 1


@pytest.mark.parametrize(("model", "settings"), [("deepfm", {"norm": "batch"}), ("lr", {})])
def test_an_encoded_model_is_trained_and_served(model: str, settings, criteo_data, criteo_file: Path, tmp_path: Path):
    """DeepFM wants a wider table, a start scale and running statistics; logistic regression no vectors at all."""
    schema = criteo_data.schema
    small = {"hidden": (16, 8)} if model == "deepfm" else {}
    arch = encode(model, InputShape.of(schema, 16), {**small, **settings})
    file, run = tmp_path / "arch.json", tmp_path / "run"
    file.write_text(dump_arch(arch))
    assert load_arch(file) == arch
    options = ["batch_size=256", "--quiet"]
    assert main(["train", str(file), "--data", str(criteo_data.path), "--out", str(run), *options]) == 0
    trained = load_trained(run)
    assert trained.tables.stacks[0].shape[1] == arch.table_width(16)
    result = json.loads((run / "result.json").read_text())
    assert result["embedding_params"] == sum(schema.table_rows) * arch.table_width(16)
    (tmp_path / "rows.tsv").write_text("\n".join(criteo_file.read_text().splitlines()[:50]) + "\n")
    assert main(["predict", str(run), "--raw", str(tmp_path / "rows.tsv"), "--quiet"]) == 0


def test_an_encoded_model_is_compared_and_its_weights_are_kept(criteo_data, tmp_path: Path):
    arch = encode("deepfm", InputShape.of(criteo_data.schema, 16), {"hidden": (16, 8)})
    (tmp_path / "deepfm.json").write_text(dump_arch(arch))
    args = [
        "--models",
        "lr",
        str(tmp_path / "deepfm.json"),
        "--data",
        str(criteo_data.path),
        "--out",
        str(tmp_path / "c"),
    ]
    assert main(["compare", *args, "--seeds", "1", "--workers", "1", "--quiet", "--keep"]) == 0
    assert load_trained(f"{tmp_path / 'c'}:{arch.key}").tables.stacks[0].shape[1] == 17
