from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from recnas.cli.main import main
from recnas.data.prepare import PrepareOptions, prepare
from recnas.data.synthetic import generate
from recnas.errors import BackendMissing, RunError
from recnas.jobs import export_program
from recnas.jobs.compare import compare
from recnas.jobs.export import check_program, export
from recnas.jobs.export_program import ONNX_PACKAGES, check_format, read_program
from recnas.jobs.predict import predict
from recnas.jobs.predict_rows import RawEncoder
from recnas.jobs.trained import load_trained
from recnas.train.settings import EmbeddingSettings, TrainSettings

has_onnx = all(importlib.util.find_spec(package) for package in ONNX_PACKAGES)
FORMATS = [
    "pt2",
    pytest.param(
        "onnx",
        marks=pytest.mark.skipif(not has_onnx, reason="onnx, onnxscript or onnxruntime is not installed"),
    ),
]


def score(folder: Path, line: str) -> float:
    """What the example says, run where recnas cannot be imported from."""
    done = subprocess.run(
        [sys.executable, str(folder / "score_row.py")],
        input=line,
        capture_output=True,
        text=True,
        check=True,
        cwd=folder.parent,
    )
    return float(done.stdout)


def inputs_of(folder: Path, line: str) -> tuple[list[float], list[int]]:
    """What the example makes of a row, in this process: starting one for each of many rows takes long."""
    source = (folder / "score_row.py").read_text(encoding="utf-8")
    last = max(source.rfind(start) for start in ("\nprogram = ", "\nsession = "))
    names = {"__file__": str(folder / "score_row.py"), "LINE": line}
    exec(compile(source[:last].replace("sys.stdin.readline()", "LINE"), "score_row.py", "exec"), names)
    return names["dense"], names["ids"]


def assert_same_inputs(folder: Path, lines: list[str], dense: np.ndarray, ids: np.ndarray) -> None:
    for number, line in enumerate(lines):
        found = inputs_of(folder, line)
        np.testing.assert_allclose(found[0], dense[number], rtol=1e-6)
        assert found[1] == ids[number].tolist()


def rows_of(data, split: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = np.arange(count) % data.rows(split)
    dense, ids = data.array(split, "dense")[rows], data.array(split, "ids")[rows]
    return torch.from_numpy(dense), torch.from_numpy(ids.astype(np.int64))


@pytest.fixture(scope="module", params=FORMATS)
def exported(request, trained_run: Path, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("export") / request.param
    result = export(f"{trained_run}:best", request.param, out)
    assert result["check"]["max_abs_difference"] <= 1e-5
    assert not list(out.parent.glob(".*"))
    return out


def program_of(folder: Path):
    about = json.loads((folder / "model.json").read_text())
    return read_program(folder / about["program"]["file"])


def test_any_batch_size_agrees_with_the_model(exported: Path, trained_run: Path, criteo_data):
    program, model = program_of(exported), load_trained(f"{trained_run}:best")
    for size in (1, 2, 3, 7, 100, 512, 1300):
        dense, ids = rows_of(criteo_data, "test", size)
        found = program(dense, ids)
        assert found.shape == (size,)
        torch.testing.assert_close(found, model.predict(dense, ids), atol=1e-5, rtol=0)


def test_ids_without_a_row_count_as_unknown(exported: Path, criteo_data):
    program = program_of(exported)
    dense, ids = rows_of(criteo_data, "test", 5)
    strange, unknown = ids.clone(), ids.clone()
    strange[:, 3], strange[:, 8] = 10**9, -4
    unknown[:, 3] = unknown[:, 8] = 0
    torch.testing.assert_close(program(dense, strange), program(dense, unknown))


def test_the_description_is_enough_to_encode(exported: Path, criteo_data, trained_run: Path):
    about = json.loads((exported / "model.json").read_text())
    model = load_trained(f"{trained_run}:best")
    assert about["model"]["data"] == criteo_data.fingerprint
    assert about["model"]["architecture"] == model.key
    assert about["model"]["metrics"]["test"]["logloss"] == model.metrics["test"]["logloss"]
    assert about["program"]["check"]["max_abs_difference"] <= 1e-5
    assert about["program"]["check"]["batch_sizes"] == [1, 7, 512]
    assert [column["name"] for column in about["dense"]] == [f"I{i}" for i in range(1, 14)]
    assert about["dense"][0]["statistics"]["mean"] == criteo_data.schema.dense[0].mean
    for column, field in zip(about["sparse"], criteo_data.schema.sparse):
        values = json.loads((exported / column["vocabulary"]).read_text())
        kept = pq.read_table(criteo_data.path / "vocab" / f"{field.name}.parquet")["value"].to_pylist()
        assert values == kept
        assert column["ids"] == field.rows == len(values) + about["ids"]["first_value"]


def test_the_example_scores_raw_rows(
    exported: Path, trained_run: Path, criteo_data, criteo_file: Path, tmp_path: Path
):
    lines = criteo_file.read_text().splitlines()[:30]
    raw = tmp_path / "rows.tsv"
    raw.write_text("\n".join(lines) + "\n")
    predict(f"{trained_run}:best", [raw], tmp_path / "p.parquet")
    expected = pq.read_table(tmp_path / "p.parquet")["probability"].to_pylist()
    (block,) = RawEncoder(criteo_data, [raw]).blocks()
    assert_same_inputs(exported, lines, block.dense, block.ids)
    assert score(exported, lines[7]) == pytest.approx(expected[7], abs=1e-6)
    text = (exported / "score_row.py").read_text()
    assert "import recnas" not in text
    code = [line for line in text.split('"""', 2)[2].splitlines() if line.strip()]
    assert len(code) <= 36


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("name", ["deepfm", "finalmlp", "autoint+"])
def test_hand_crafted_models_agree_too(name: str, to: str, comparison: Path, criteo_data, tmp_path: Path):
    result = export(f"{comparison}:{name}", to, tmp_path / "served")
    assert result["check"]["max_abs_difference"] <= 1e-5
    dense, ids = rows_of(criteo_data, "test", 33)
    expected = load_trained(f"{comparison}:{name}").predict(dense, ids)
    torch.testing.assert_close(program_of(tmp_path / "served")(dense, ids), expected, atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def comparison(criteo_data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("compared") / "run"
    settings = TrainSettings(epochs=0.05, lr=0.03, embeddings=EmbeddingSettings(width=8))
    compare(criteo_data, out, ["deepfm", "finalmlp", "autoint+"], settings=settings, seeds=1, keep=True)
    return out


@pytest.mark.parametrize(("layout", "limit"), [("avazu", {"cap": 20}), ("kdd12", {"hash_rows": 30})])
def test_other_layouts_and_folded_tables(layout: str, limit: dict, train_small, tmp_path: Path):
    """Derived, joined and signed columns; no dense inputs for Avazu; tables smaller than the vocabulary."""
    raw, served = tmp_path / "raw.txt", tmp_path / "served"
    made = generate(layout, 2000, 3, raw, threads=1)
    side = tuple(map(str, made.side_paths))
    data = prepare(layout, [raw], tmp_path / "data", PrepareOptions(min_count=2, parquet=False), threads=1)
    run = train_small(data, tmp_path / "run", arch=2, **limit)
    result = export(str(run), "pt2", served)
    assert result["check"]["max_abs_difference"] <= 1e-5
    about = json.loads((served / "model.json").read_text())
    assert about["fold"]["rows"] == next(iter(limit.values()))
    assert max(column["table_rows"] for column in about["sparse"]) == about["fold"]["rows"]
    lines = raw.read_text().splitlines()[about["raw"]["header"] :][:60]
    (block,) = RawEncoder(data, [raw], side).blocks()
    if side:
        profile = dict(line.split("\t", 1) for line in Path(side[0]).read_text().splitlines())
        rows = [dict(zip(about["raw"]["columns"], line.split("\t"))) for line in lines]
        for row in rows:
            row |= zip(("gender", "age"), profile[row["user"]].split("\t") if row["user"] in profile else ())
        lines = [json.dumps(row) for row in rows]
    assert_same_inputs(served, lines, block.dense, block.ids)


def test_quoted_cells_strings_and_every_transform(train_small, tmp_path: Path):
    rng = np.random.default_rng(4)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        "name: mine\nseparator: ','\nquote: true\nheader: true\ncolumns: [clicked, price, age, n, shop, tag, item]\n"
        "label: {column: clicked}\ndense:\n- {columns: [price], transform: none, missing: ['-1'], fill: 2.5}\n"
        "- {columns: [age], transform: log-squared}\n- {columns: [n]}\n"
        "sparse:\n- {columns: [shop], kind: string, missing: ['none']}\n- {columns: [tag], kind: hex}\n"
        "- {columns: [item], kind: int, suffix: ':1', missing: ['7']}\n"
    )
    shops = ["none", "", '"a, b"', "é", "plain", '"say ""so"""']
    lines = [
        f"{rng.integers(2)},{rng.choice(['-1', '', '0.25', '3'])},{rng.choice(['', '1', '30', '2'])},"
        f"{rng.choice(['', '-3', '100'])},{rng.choice(shops)},{rng.choice(['', 'Ff', '00ff', 'abcdef0123'])},"
        f"{rng.choice(['7:1', '', '18446744073709551615:1', '05:1'])}"
        for _ in range(400)
    ]
    raw = tmp_path / "raw.csv"
    raw.write_text("clicked,price,age,n,shop,tag,item\n" + "\n".join(lines) + "\n", encoding="utf-8")
    data = prepare(str(recipe), [raw], tmp_path / "data", PrepareOptions(parquet=False), threads=1)
    run = train_small(data, tmp_path / "run", arch=3)
    export(str(run), "pt2", tmp_path / "served")
    (block,) = RawEncoder(data, [raw]).blocks()
    assert len(np.unique(block.ids[:, 0])) == 5  # missing and four shops
    assert_same_inputs(tmp_path / "served", lines[:60], block.dense, block.ids)


@pytest.mark.skipif(not has_onnx, reason="onnx, onnxscript or onnxruntime is not installed")
def test_large_onnx_weights_go_beside(trained_run: Path, tmp_path: Path, monkeypatch, criteo_data):
    monkeypatch.setattr(export_program, "_BESIDE", 0)
    export(str(trained_run), "onnx", tmp_path / "served")
    assert (tmp_path / "served" / "model.onnx.data").exists()
    dense, ids = rows_of(criteo_data, "test", 9)
    expected = load_trained(trained_run).predict(dense, ids)
    torch.testing.assert_close(program_of(tmp_path / "served")(dense, ids), expected, atol=1e-5, rtol=0)


def test_a_program_that_differs_is_refused(trained_run: Path, criteo_data, tmp_path: Path, monkeypatch):
    model = load_trained(trained_run)
    for wrong in (lambda p: p + 2e-5, lambda p: p * float("nan"), lambda p: p[:, None]):
        with pytest.raises(RunError, match="differs from the model"):
            check_program(
                lambda dense, ids, wrong=wrong: wrong(model.predict(dense, ids)), model, criteo_data
            )
    monkeypatch.setattr("recnas.jobs.export.read_program", lambda path: lambda dense, ids: dense[:, 0])
    with pytest.raises(RunError, match="Nothing was written"):
        export(str(trained_run), "pt2", tmp_path / "served")
    assert not list(tmp_path.iterdir())


def test_the_command_and_its_faults(trained_run: Path, tmp_path: Path, capsys):
    out = tmp_path / "served"
    command = ["export", f"{trained_run}:best", "--out", str(out), "--quiet"]
    assert main([*command, "--to", "pt3"]) == 2
    assert "did you mean 'pt2'" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "nothing"), "--out", str(out)]) == 2
    assert "There is no run directory" in capsys.readouterr().err
    assert main(["export", f"{trained_run}:seed-0", "--seed", "1", "--out", str(out)]) == 2
    assert "two seeds" in capsys.readouterr().err
    assert main([*command, "--data", str(tmp_path / "gone")]) == 2
    assert "is not a prepared data set" in capsys.readouterr().err
    assert not out.exists()
    assert main(["export", str(trained_run), "--out", str(out), "--quiet", "--seed", "1"]) == 0
    text = capsys.readouterr().out
    assert "seed 1" in text
    assert "largest difference" in text
    assert main([*command, "--json"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_onnx_without_its_packages_says_what_to_install(monkeypatch):
    monkeypatch.setattr(export_program.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BackendMissing) as error:
        check_format("onnx")
    assert "pip install onnx onnxscript onnxruntime" in str(error.value)
    check_format("pt2")
