"""Table widths as genes go through every command: a search within a memory limit, training, serving, comparing."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.encoded import encode
from recnas.cli.main import main
from recnas.data.loader import BatchLoader
from recnas.errors import ConfigError
from recnas.evaluators.race import RungRequest, RungWork
from recnas.jobs.compare import compare
from recnas.runs.ledger import Ledger
from recnas.serve.load import load_trained
from recnas.serve.program import read_program
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.json import dump_arch, load_arch
from recnas.space.settings import SpaceSettings, make_ctr_space
from recnas.train.recipe import recipe_of
from recnas.train.settings import TrainSettings
from recnas.train.setup import make_tables
from tests.jobs.search_helpers import as_yaml, small_search

SPACE = {"name": "nasrec-plus", "blocks": 2, "table_widths": True}


def narrow_deepfm(data):
    """Of 26 columns: every second one narrower, every sixth dropped."""
    arch = encode("deepfm", InputShape.of(data.schema, 16), {"hidden": (16, 8)})
    return replace(arch, narrow=tuple((c, 0.0 if c % 6 == 0 else 0.25 if c % 4 == 0 else 0.5) for c in range(0, 26, 2)))


@pytest.fixture(scope="module")
def trained(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("narrow")
    (folder / "arch.json").write_text(dump_arch(narrow_deepfm(criteo_data)))
    command = ["train", str(folder / "arch.json"), "--data", str(criteo_data.path), "--out", str(folder / "run")]
    assert main([*command, "batch_size=256", "epochs=1", "--quiet"]) == 0
    return folder / "run"


def test_a_search_trades_memory_of_tables(criteo_data, tmp_path: Path):
    full = 4 * 16 * sum(criteo_data.schema.table_rows) / 1e6
    limit = 0.6 * full
    config = small_search(criteo_data.path, space=SPACE, limits={"embedding_mb": limit}, final={"candidates": 1})
    assert (
        main(
            [
                "search",
                str(as_yaml(config, tmp_path / "c.yaml")),
                "--out",
                str(tmp_path / "run"),
                "--workers",
                "1",
                "--quiet",
            ]
        )
        == 0
    )
    lines = Ledger(tmp_path / "run" / "ledger.jsonl").read()
    candidates = [line for line in lines if line["event"] == "candidate"]
    assert len(candidates) == 12
    assert all(line["cost"]["embedding_mb"] <= limit for line in candidates)
    assert {"mutation", "init"} <= {line["origin"] for line in candidates}
    # The winner's tables on disk and in memory are as large as was counted.
    model, arch = load_trained(f"{tmp_path / 'run'}:best"), load_arch(tmp_path / "run" / "winner.json")
    counted = count(arch, criteo_data.schema)
    assert sum(stack.nbytes for stack in model.tables.stacks) == counted.embedding_bytes <= limit * 1e6
    assert main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html")]) == 0


def test_what_was_trained_is_served(trained: Path, criteo_data, criteo_file: Path, tmp_path: Path, capsys):
    arch = narrow_deepfm(criteo_data)
    result = json.loads((trained / "result.json").read_text())
    columns = arch.table_columns(16, 26)
    assert set(columns) == {0, 5, 9, 17}
    values = sum(rows * own for rows, own in zip(criteo_data.schema.table_rows, columns))
    assert result["embedding_params"] == values
    model = load_trained(trained)
    assert sum(stack.numel() for stack in model.tables.stacks) == values
    # Predictions do not depend on a dropped column, and do on another.
    batch = next(BatchLoader(criteo_data, "test", 64).epoch())
    before = model.predict(batch.dense, batch.ids)
    for column, same in ((0, True), (1, False)):
        ids = batch.ids.clone()
        ids[:, column] = torch.randint(0, criteo_data.schema.table_rows[column], (64,))
        assert torch.equal(before, model.predict(batch.dense, ids)) == same
    # The exported program gives the same, and reads raw rows.
    served = tmp_path / "served"
    assert main(["export", str(trained), "--to", "pt2", "--out", str(served)]) == 0
    torch.testing.assert_close(read_program(served / "model.pt2")(batch.dense, batch.ids), before)
    row = criteo_file.read_text().splitlines()[0] + "\n"
    given = subprocess.run(
        [sys.executable, str(served / "score_row.py")], input=row, capture_output=True, text=True, check=True
    )
    assert 0 < float(given.stdout) < 1
    (tmp_path / "rows.tsv").write_text("\n".join(criteo_file.read_text().splitlines()[:50]) + "\n")
    assert main(["predict", str(trained), "--raw", str(tmp_path / "rows.tsv"), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["importance", str(trained), "--json", "--quiet"]) == 0
    found = {line["name"]: line for line in json.loads(capsys.readouterr().out)["parts"]}
    dropped = [criteo_data.schema.sparse[c].name for c in range(0, 26, 6)]
    assert all(abs(found[name]["logloss"]) < 1e-12 for name in dropped)


def test_an_onnx_program_reads_narrow_tables(trained: Path, criteo_data, tmp_path: Path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    batch = next(BatchLoader(criteo_data, "test", 64).epoch())
    assert main(["export", str(trained), "--to", "onnx", "--out", str(tmp_path / "served")]) == 0
    expected = load_trained(trained).predict(batch.dense, batch.ids)
    torch.testing.assert_close(read_program(tmp_path / "served" / "model.onnx")(batch.dense, batch.ids), expected)


def test_it_is_compared_drawn_and_counted(criteo_data, tmp_path: Path, capsys):
    arch = narrow_deepfm(criteo_data)
    for name, one in (("narrow", arch), ("full", replace(arch, narrow=()))):
        (tmp_path / f"{name}.json").write_text(dump_arch(one))
    narrow, full, data = str(tmp_path / "narrow.json"), str(tmp_path / "full.json"), str(criteo_data.path)
    command = ["compare", "--models", narrow, "--data", data, "--out", str(tmp_path / "c"), "--seeds", "1", "--keep"]
    assert main([*command, "--workers", "1", "--quiet"]) == 0
    counted = count(arch, criteo_data.schema).embedding_params
    assert sum(stack.numel() for stack in load_trained(f"{tmp_path / 'c'}:{arch.key}").tables.stacks) == counted
    assert str(counted) in (tmp_path / "c" / "ledger.jsonl").read_text()
    capsys.readouterr()
    assert main(["cost", narrow, "--data", data, "--json"]) == 0
    assert str(4 * counted) in capsys.readouterr().out
    assert main(["draw", full, narrow, "-o", str(tmp_path / "both.svg")]) == 0
    assert "narrow" in capsys.readouterr().out


def test_several_processes_refuse_it(criteo_data, monkeypatch):
    import recnas.train.setup as setup

    monkeypatch.setattr(setup, "current_ranks", lambda: type("Ranks", (), {"several": True})())
    network = type("Net", (), {"field_columns": object(), "start_scale": 1.0})()
    with pytest.raises(ConfigError, match="kept in one process") as error:
        make_tables(criteo_data.schema, TrainSettings(), 0, torch.device("cpu"), network)
    assert "take narrow out" in error.value.fix


def test_a_space_without_the_genes_refuses_the_setting(tmp_path: Path, criteo_data, capsys):
    config = as_yaml(small_search(criteo_data.path), tmp_path / "c.yaml")
    assert main(["search", str(config), "--out", str(tmp_path / "no"), "space.table_widths=true", "--quiet"]) == 2
    assert "has no setting table_widths" in capsys.readouterr().err


def test_draws_of_a_table_have_widths(criteo_data):
    from recnas.jobs.bench import first_archs

    space = make_ctr_space(SpaceSettings.model_validate(SPACE), criteo_data.schema.n_sparse)
    drawn = first_archs(space, 0, 30)
    assert 5 < sum(bool(arch.narrow) for arch in drawn) < 25
    assert max(column for arch in drawn for column, _ in arch.narrow) == 25
    assert np.mean([len(arch.narrow) for arch in drawn]) > 2


def test_cost_names_the_columns(criteo_data, tmp_path: Path, capsys):
    (tmp_path / "narrow.json").write_text(dump_arch(narrow_deepfm(criteo_data)))
    assert main(["cost", str(tmp_path / "narrow.json"), "--data", str(criteo_data.path)]) == 0
    shown = capsys.readouterr().out
    names = [field.name for field in criteo_data.schema.sparse]
    assert f"without a table, so not read: {', '.join(names[c] for c in range(0, 26, 6))}" in shown
    assert f"narrower than 17 columns: {names[2]} 9, {names[4]} 5, " in shown


@pytest.mark.parametrize(
    "options", [["embeddings.backend=fused"], ["embeddings.optimizer=rowwise-adagrad", "embeddings.cap=50"]]
)
def test_other_backends_and_limits_of_rows(criteo_data, tmp_path: Path, options: list[str]):
    """fbgemm's tables are filled up to multiples of 4 columns; what is served is not."""
    if "fused" in options[0]:
        pytest.importorskip("fbgemm_gpu")
    arch = narrow_deepfm(criteo_data)
    (tmp_path / "arch.json").write_text(dump_arch(arch))
    command = ["train", str(tmp_path / "arch.json"), "--data", str(criteo_data.path), "--out", str(tmp_path / "run")]
    assert main([*command, "batch_size=512", "epochs=1", "--quiet", *options]) == 0
    model = load_trained(tmp_path / "run")
    rows = [min(n, 50) for n in criteo_data.schema.table_rows] if len(options) > 1 else criteo_data.schema.table_rows
    counted = sum(n * own for n, own in zip(rows, arch.table_columns(16, 26)))
    assert sum(stack.numel() for stack in model.tables.stacks) == counted
    batch = next(BatchLoader(criteo_data, "valid", 4096).epoch())
    loss = torch.nn.functional.binary_cross_entropy(model.predict(batch.dense, batch.ids), batch.label)
    assert float(loss) < 0.6


def test_a_rung_goes_on_from_its_checkpoint(criteo_data, tmp_path: Path):
    space, arch = SpaceSettings.model_validate(SPACE), narrow_deepfm(criteo_data)
    settings = TrainSettings.model_validate(
        {"batch_size": 256, "epochs": 1, "schedule": "constant", "embeddings": {"optimizer": "adam", "l2": 1e-4}}
    )
    described = make_ctr_space(space).to_dict(arch)
    recipe = json.loads(json.dumps(recipe_of(settings)))
    found = []
    for name, stops in (("parts", (4, 9)), ("whole", (9,))):
        work = RungWork(str(criteo_data.path), space, settings, 4000, str(tmp_path / name)).open()
        for until in stops:
            done = work(RungRequest("one", described, recipe, 3, until))
        found.append((done.steps, done.valid))
    assert found[0] == found[1]
    assert found[0][0] == 9


def test_a_hand_crafted_model_whose_contexts_have_tables_of_their_own(short_data, tmp_path: Path):
    """Compared, kept, opened again, exported."""
    options = {"hidden": (8,), "fusion_heads": 2, "first_context": 1, "second_context": 3, "own_contexts": True}
    settings = TrainSettings(epochs=1, batch_size=256, embeddings={"width": 4}, stop={"patience": 1})
    out = tmp_path / "run"
    compare(short_data, out, ["finalmlp"], settings=settings, seeds=1, options={"finalmlp": options}, keep=True)
    model = load_trained(f"{out}:finalmlp")
    batches = [(b.dense, b.ids) for b in BatchLoader(short_data, "test", 4096).epoch()]
    logits = torch.cat([model.logits(dense, ids) for dense, ids in batches])
    np.testing.assert_array_equal(logits.numpy(), np.load(out / "predictions" / "finalmlp-seed-0.npy"))
    assert main(["export", f"{out}:finalmlp", "--to", "pt2", "--out", str(tmp_path / "served"), "--quiet"]) == 0
    program = read_program(tmp_path / "served" / "model.pt2")
    for dense, ids in batches:
        torch.testing.assert_close(program(dense, ids), model.predict(dense, ids))
