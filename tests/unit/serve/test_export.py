from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from recnas.cli.main import main
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.raw import serving, transforms, values
from recnas.data.raw.encoder import RawEncoder
from recnas.data.synthetic import generate
from recnas.errors import BackendMissing, RunError
from recnas.jobs.compare import compare
from recnas.runs.checks import with_check
from recnas.serve import export as export_module
from recnas.serve import program
from recnas.serve.export import check_program, export
from recnas.serve.load import load_trained
from recnas.serve.predict import predict
from recnas.serve.program import ONNX_PACKAGES, check_format, read_program
from recnas.train.settings import EmbeddingSettings, TrainSettings
from recnas.trust.verify import verify

pytestmark = pytest.mark.spawns

has_onnx = all(importlib.util.find_spec(package) for package in ONNX_PACKAGES)
FORMATS = [
    "pt2",
    pytest.param(
        "onnx",
        marks=pytest.mark.skipif(not has_onnx, reason="onnx, onnxscript or onnxruntime is not installed"),
    ),
]


def run_script(folder: Path, text: str | bytes) -> subprocess.CompletedProcess[str]:
    """score_row.py as a user runs it, where recnas cannot be imported from."""
    return subprocess.run(
        [sys.executable, str(folder / "score_row.py")],
        input=text if isinstance(text, str) else text.decode(),
        capture_output=True,
        text=True,
        cwd=folder.parent,
    )


def score(folder: Path, text: str) -> list[float]:
    done = run_script(folder, text)
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.splitlines()]


def inputs_of(folder: Path, text: str) -> list[tuple[list[float], list[int]]]:
    """What the exported rows.py makes of rows, in this process: starting one for each of many takes long."""
    spec = importlib.util.spec_from_file_location("exported_rows", folder / "rows.py")
    rows = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as beside:
        beside.syspath_prepend(folder)
        beside.delitem(sys.modules, "values", raising=False)
        spec.loader.exec_module(rows)
    model = json.loads((folder / "model.json").read_text())
    return rows.RowReader(model, rows.Vocabularies(folder, model)).rows(text.encode())


def assert_same_inputs(folder: Path, lines: list[str], dense: np.ndarray, ids: np.ndarray) -> None:
    for number, found in enumerate(inputs_of(folder, "\n".join(lines))):
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
    check = about["program"]["check"]
    assert check["batch_sizes"] == [1, 7, 512]
    assert 512 < check["rows"] <= criteo_data.rows("valid")  # each row counts once
    assert (check["raw"]["from_file"], check["raw"]["rebuilt"]) == (64, 64)
    assert check["raw"]["max_abs_difference"] <= 1e-5
    assert [column["name"] for column in about["dense"]] == [f"I{i}" for i in range(1, 14)]
    assert about["dense"][0]["statistics"]["mean"] == criteo_data.schema.dense[0].mean
    for column, field in zip(about["sparse"], criteo_data.schema.sparse):
        values = json.loads((exported / column["vocabulary"]).read_text())
        kept = pq.read_table(criteo_data.path / "vocab" / f"{field.name}.parquet")["value"].to_pylist()
        assert values == kept
        assert column["ids"] == field.rows == len(values) + about["ids"]["first_value"]


def test_the_example_scores_raw_rows(exported: Path, trained_run: Path, criteo_data, criteo_file: Path, tmp_path: Path):
    lines = criteo_file.read_text().splitlines()[:30]
    raw = tmp_path / "rows.tsv"
    raw.write_text("\n".join(lines) + "\n")
    predict(f"{trained_run}:best", [raw], tmp_path / "p.parquet")
    expected = pq.read_table(tmp_path / "p.parquet")["probability"].to_pylist()
    (block,) = RawEncoder(criteo_data, [raw]).blocks()
    assert_same_inputs(exported, lines, block.dense, block.ids)
    # A label, none, a header before: whichever way the row is given.
    header = "\t".join(json.loads((exported / "model.json").read_text())["raw"]["columns"])
    given = [
        header,
        lines[7],
        lines[8].partition("\t")[2],
        json.dumps(dict(zip(header.split("\t"), lines[9].split("\t")))),
    ]
    assert score(exported, "\n".join(given)) == pytest.approx(expected[7:10], abs=1e-6)
    for file in ("rows.py", "values.py", "transforms.py", "score_row.py"):
        assert "import recnas" not in (exported / file).read_text()
        assert "from recnas" not in (exported / file).read_text()
    ours = Path(serving.__file__).read_text()
    for module, name in ((values, "values"), (transforms, "transforms")):
        ours = ours.replace(f"from recnas.data.raw.{name}", f"from {name}")
        assert (exported / f"{name}.py").read_bytes() == Path(module.__file__).read_bytes()
    assert (exported / "rows.py").read_text() == ours


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
            row |= zip(("gender", "age"), profile[row["user"]].split("\t") if row["user"] in profile else (None, None))
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
    monkeypatch.setattr(program, "_BESIDE", 0)
    export(str(trained_run), "onnx", tmp_path / "served")
    assert (tmp_path / "served" / "model.onnx.data").exists()
    dense, ids = rows_of(criteo_data, "test", 9)
    expected = load_trained(trained_run).predict(dense, ids)
    torch.testing.assert_close(program_of(tmp_path / "served")(dense, ids), expected, atol=1e-5, rtol=0)


def test_a_program_that_differs_is_refused(trained_run: Path, criteo_data, tmp_path: Path, monkeypatch):
    model = load_trained(trained_run)
    for wrong in (lambda p: p + 2e-5, lambda p: p * float("nan"), lambda p: p[:, None]):
        with pytest.raises(RunError, match="differs from the model"):
            check_program(lambda dense, ids, wrong=wrong: wrong(model.predict(dense, ids)), model, criteo_data)
    monkeypatch.setattr("recnas.serve.export.read_program", lambda path: lambda dense, ids: dense[:, 0])
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
    monkeypatch.setattr(program.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BackendMissing) as error:
        check_format("onnx")
    assert "pip install onnx onnxscript onnxruntime" in str(error.value)
    check_format("pt2")


OWN_RECIPE = (
    "name: own\nseparator: ','\nquote: true\nheader: true\nlabel: {column: clicked}\n"
    "dense: [{columns: [price]}, {columns: [seen], transform: none}]\n"
    "sparse: [{columns: [city], kind: string}, {columns: [item], kind: int}]\n"
)


@pytest.fixture(scope="module")
def own(train_small, tmp_path_factory) -> Path:
    """A CSV with a header, quoted commas, ids above 2^53 and unscaled times, trained and exported."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(7)
    cities = ['"London, UK"', "Paris", '"the ""Hague"""', "", "London"]
    lines = ["clicked,price,seen,city,item,note"] + [
        f"{rng.integers(2)},{rng.choice(['', '1.5', '20'])},{8.7e8 + int(rng.integers(10**6)):.0f},"
        f"{cities[rng.integers(5)]},{2**53 + int(rng.integers(9))},x"
        for _ in range(500)
    ]
    (folder / "own.csv").write_text("\n".join(lines) + "\n")
    (folder / "own.yaml").write_text(OWN_RECIPE)
    data = prepare(str(folder / "own.yaml"), [folder / "own.csv"], folder / "data", threads=1)
    export(str(train_small(data, folder / "run", arch=3)), "pt2", folder / "served")
    return folder


def test_one_probability_whichever_way_a_row_is_given(own: Path):
    lines = (own / "own.csv").read_text().splitlines()[:9]
    predict(str(own / "run"), [own / "own.csv"], own / "p.parquet")
    expected = pq.read_table(own / "p.parquet")["probability"].to_pylist()[:8]
    rows = list(csv.DictReader(lines))
    served = own / "served"
    assert score(served, "\n".join(lines)) == pytest.approx(expected, abs=1e-6)
    assert score(served, "\r\n".join(lines[1:])) == pytest.approx(expected, abs=1e-6)
    cut = "\n".join(line.partition(",")[2] for line in lines[1:])
    assert score(served, cut) == pytest.approx(expected, abs=1e-6)
    for row in rows:
        row["item"] = int(row["item"])
        row["city"] = row["city"] or None
    assert score(served, "\n".join(map(json.dumps, rows))) == pytest.approx(expected, abs=1e-6)
    assert score(served, json.dumps(rows[0], indent=2)) == pytest.approx(expected[:1], abs=1e-6)
    assert len(set(expected)) > 4
    other_order = "city,item,seen,price\n" + '"London, UK",9007199254740993,870000000,1.5'
    (found,) = inputs_of(served, other_order)
    assert found[1] == inputs_of(served, '9,1.5,870000000,"London, UK",9007199254740993,x')[0][1]
    assert found[1][0] >= 2


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('{"price": 1, "seen": 1, "citty": "x", "item": 3}', ("'citty'", "did you mean 'city'", "item")),
        ('{"price": 1, "seen": 1, "city": "x"}', ("no 'item'", "null")),
        ("1,2,3", ("3 cells", "6", "without clicked")),
        ("0,cheap,1,Paris,3,x", ("column price", "not a number", "cheap")),
        ("0,1,1,Paris,3,x\n0,1,1,Paris,x,x", ("line 2", "column item", "not an integer")),
        ('0,1,1,"Paris,3,x', ("quote that does not close",)),
        ('{"price": 1, ', ("not a valid JSON object",)),
        ('{"price": [1], "seen": 1, "city": "x", "item": 3}', ("column price", "in quotes")),
        ("clicked,price,seen,city,item,note", ("no row after it",)),
        ("clicked,price,seen,citty,item\n0,1,1,Paris,3", ("header line has no column city", "citty")),
        ("", ("no row",)),
    ],
)
def test_a_row_that_cannot_be_scored_gets_one_sentence(own: Path, text: str, parts: tuple[str, ...]):
    with pytest.raises(ValueError) as caught:  # rows.py's own RowError
        inputs_of(own / "served", text)
    for part in parts:
        assert part in str(caught.value)


def test_the_script_ends_with_a_sentence_and_code_2(own: Path):
    done = run_script(own / "served", '{"price": 1, "seen": 1, "citty": "x", "item": 3}')
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("score_row.py: unknown column 'citty'")
    assert done.stderr.count("\n") == 1


def test_standardised_columns_say_so_and_are_applied(own: Path):
    price, seen = json.loads((own / "served" / "model.json").read_text())["dense"]
    assert not price["statistics"]["applied"]
    assert seen["statistics"]["applied"]
    (found,) = inputs_of(own / "served", '{"price": null, "seen": 870500000, "city": "", "item": ""}')
    expected = (870500000 - seen["statistics"]["mean"]) / seen["statistics"]["std"]
    assert found == ([0.0, pytest.approx(expected)], [1, 1])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("math.log1p(max(x, 0.0))", "math.log(max(x, 1.0))"),
        ('self.look_up(column["name"], value)', "self.look_up(column[\"name\"], value.split(',')[0])"),
        ('return ids["missing"]', 'return ids["unknown"]'),
    ],
)
def test_export_refuses_rows_served_otherwise_than_trained(own: Path, tmp_path: Path, monkeypatch, old: str, new: str):
    """Break one rule of the copied modules: the export must notice, on raw rows and on rebuilt ones."""
    broken = tmp_path / "broken.py"
    (module,) = (one for one in (serving, transforms) if old in Path(one.__file__).read_text())
    broken.write_text(Path(module.__file__).read_text().replace(old, new))
    monkeypatch.setattr(module, "__file__", str(broken))
    with pytest.raises(RunError, match=r"score_row\.py") as caught:
        export(str(own / "run"), "pt2", tmp_path / "served")
    assert "Nothing was written" in str(caught.value)
    monkeypatch.setattr("recnas.serve.export.real_rows", lambda data: None)
    with pytest.raises(RunError, match=r"score_row\.py"):
        export(str(own / "run"), "pt2", tmp_path / "served")
    assert [item.name for item in tmp_path.iterdir()] == ["broken.py"]


def test_a_line_is_not_enough_for_joined_or_parquet_models():
    common = {"dense": [], "ids": {"unknown": 0, "missing": 1, "first_value": 2}}
    column = {"name": "age", "source": "age", "kind": "int", "suffix": None, "missing": [], "derive": None}
    raw = {"separator": ",", "quote": False, "columns": ["y", "user"], "label": "y"}
    joined = {**common, "raw": {**raw, "format": "text"}, "sparse": [{**column, "join": {"file": "f"}}]}
    with pytest.raises(serving.RowError, match=r"age were looked up in another file.*JSON"):
        serving.RowReader(joined, lambda *_: None).rows(b"1,2")
    parquet = {**common, "raw": {**raw, "format": "parquet"}, "sparse": [{**column, "join": None}]}
    with pytest.raises(serving.RowError, match=r"trained on Parquet.*JSON"):
        serving.RowReader(parquet, lambda *_: None).rows(b"1,2")


def test_a_model_of_parquet_files_takes_objects_with_any_text(train_small, tmp_path: Path):
    """Line breaks, quotes and control characters in values; the export itself checks every form it can rebuild."""
    cities = ["London, UK", "two\nlines", 'a "b"', "\x1f", "", None, "é"]
    table = pa.table(
        {
            "label": [n % 2 == 0 for n in range(400)],
            "price": [n * 1000.0 for n in range(400)],
            "user": [cities[n % 7] for n in range(400)],
            "item": [2**60 + n % 5 for n in range(400)],
        }
    )
    pq.write_table(table, tmp_path / "raw.parquet")
    data = prepare("parquet", [tmp_path / "raw.parquet"], tmp_path / "data", PrepareOptions(parquet=False), threads=1)
    run = train_small(data, tmp_path / "run", arch=3)
    check = export(str(run), "pt2", tmp_path / "served")["check"]["raw"]
    assert check["from_file"] == 0
    assert check["rebuilt"] == min(64, data.rows("valid"))
    predict(str(run), [tmp_path / "raw.parquet"], tmp_path / "p.parquet")
    expected = pq.read_table(tmp_path / "p.parquet")["probability"].to_pylist()[:20]
    objects = "\n".join(json.dumps(row) for row in table.slice(0, 20).to_pylist())
    assert score(tmp_path / "served", objects) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["program", "model.json", "rows.py", "values.py", "vocab/C1.json"])
def test_score_row_loads_nothing_that_was_changed(exported: Path, tmp_path: Path, name: str):
    copy = Path(shutil.copytree(exported, tmp_path / "served"))
    name = next(copy.glob("model.[!j]*")).name if name == "program" else name
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    done = run_script(copy, "x")
    assert done.returncode == 2
    assert "changed" in done.stderr
    assert "Traceback" not in done.stderr
    assert not verify(copy).well
    (copy / name).unlink()
    assert run_script(copy, "x").returncode == 2


def test_score_row_reads_nothing_outside_of_its_folder(exported: Path, tmp_path: Path):
    copy = Path(shutil.copytree(exported, tmp_path / "served"))
    model = json.loads((copy / "model.json").read_text())
    (tmp_path / "secret.json").write_text("[]")
    model["sparse"][0]["vocabulary"] = "../secret.json"
    model["files"]["../secret.json"] = hashlib.sha256(b"[]").hexdigest()
    (copy / "model.json").write_text(json.dumps(with_check(model)))
    done = run_script(copy, "x")
    assert (done.returncode, "outside of this folder" in done.stderr) == (2, True)


def test_an_export_is_verified_and_says_that_pt2_runs_code(exported: Path):
    assert verify(exported).well
    assert "can run code" in (exported / "README.md").read_text()


def test_what_a_killed_export_left_goes_and_one_under_way_stays(tmp_path: Path):
    dead, alive, other = (tmp_path / name for name in (".served.part-0a1b", ".served.part-2c3d", ".served2.part-4e5f"))
    for part in (dead, alive, other):
        part.mkdir()
        (part / "model.pt2").write_text("half")
    (tmp_path / ".served.part-66").symlink_to(other)
    held = export_module._lock(alive)
    try:
        export_module._sweep_parts(tmp_path / "served")
    finally:
        os.close(held)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".served.part-2c3d",
        ".served.part-66",
        ".served2.part-4e5f",
    ]
    assert (other / "model.pt2").exists()
    assert (alive / "model.pt2").exists()


def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(trained_run: Path, tmp_path: Path):
    (tmp_path / "model.pt2").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        program.write_program(load_trained(trained_run), "pt2", tmp_path)
    assert caught.value.errno == 28
