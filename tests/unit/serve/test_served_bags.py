"""Columns of several values: the rows that are prepared, predicted, exported and served are the same inputs."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from recnas.data.prepare.prepare import prepare
from recnas.data.raw.encoder import RawEncoder
from recnas.data.raw.serving import RowError, RowReader, Vocabularies
from recnas.serve.check_rows import real_rows, rebuilt_rows
from recnas.serve.export import check_program, export
from recnas.serve.importance import ScoredRows, column_parts, measure
from recnas.serve.load import load_trained
from recnas.serve.manifest import describe_inputs, write_vocabularies
from recnas.serve.predict import predict
from recnas.serve.program import ONNX_PACKAGES, read_program, write_program
from recnas.space.plus import PlusSpace
from recnas.train.settings import EmbeddingSettings, TrainSettings
from recnas.train.standalone import train

HAS_ONNX = all(importlib.util.find_spec(package) for package in ONNX_PACKAGES)
SEPARATORS = {"genres": "|", "codes": ";", "last": " "}


def raw_file(data) -> Path:
    return Path(data.manifest["sources"][0]["path"])


def as_objects(path: Path, lists: bool) -> list[dict]:
    """Rows as JSON objects; cells of several values as lists, numbers among them, or as text."""
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    for row in rows:
        del row["clicked"]
        for name, separator in SEPARATORS.items() if lists else ():
            values = row[name].split(separator) if row[name] else []
            row[name] = [int(v) if v.lstrip("-").isdigit() else None if v == "NA" else v for v in values] or None
    return rows


@pytest.fixture(scope="module")
def with_hashes(bagged_rows, bagged_recipe: Path, tmp_path_factory):
    """Also a hashed column, and a bag that shares its table."""
    folder = tmp_path_factory.mktemp("hashed")
    rows = bagged_rows(500)
    rows["seen"] = rows["last"]
    rows["late"] = rows["last"].str.replace(" ", ";")
    rows.to_csv(folder / "log.csv", index=False)
    text = bagged_recipe.read_text().replace(
        "  - {columns: [codes]",
        "  - {columns: [seen], separator: ' ', hash: 30}\n  - {columns: [late], separator: ;, shares: seen, keep: last, max_values: 2}\n  - {columns: [codes]",
    )
    (folder / "r.yaml").write_text(text)
    return prepare(str(folder / "r.yaml"), [folder / "log.csv"], folder / "data")


@pytest.mark.parametrize("which", ["bagged_data", "with_hashes"])
def test_prepared_predicted_and_served_rows_are_the_same(which: str, request, tmp_path: Path):
    data = request.getfixturevalue(which)
    blocks = list(RawEncoder(data, [raw_file(data)]).blocks())
    ids, dense = (np.concatenate([getattr(block, name) for block in blocks]) for name in ("ids", "dense"))
    stored = np.concatenate([np.asarray(data.array(split, "ids")) for split in ("train", "valid", "test")])
    assert sorted(map(tuple, ids.tolist())) == sorted(map(tuple, stored.tolist()))
    write_vocabularies(data, tmp_path / "served")
    model = json.loads(json.dumps(describe_inputs(data)))
    reader = RowReader(model, Vocabularies(tmp_path / "served", model))
    forms = [raw_file(data).read_bytes()]
    for lists in (False, True) if which == "bagged_data" else (False,):
        forms.append("\n".join(json.dumps(row) for row in as_objects(raw_file(data), lists)).encode())
    for form in forms:
        served = reader.rows(form)
        assert [found for _, found in served] == ids.tolist()
        np.testing.assert_allclose([found for found, _ in served], dense, rtol=1e-6)
    unknown = 0
    for made in (real_rows(data), *rebuilt_rows(data)):  # as `export` checks itself
        assert made is not None
        assert len(made.lines) > 30
        assert [found for _, found in reader.rows("\n".join(made.lines).encode())] == made.ids.tolist()
        unknown += int((made.ids == 0).sum())
    assert unknown  # values that no vocabulary has
    with pytest.raises(RowError, match="column codes: not an integer"):
        reader.rows(json.dumps({**as_objects(raw_file(data), False)[0], "codes": "7;x"}).encode())
    with pytest.raises(RowError, match="must be written as text"):
        reader.rows(json.dumps({**as_objects(raw_file(data), False)[0], "item": ["a"]}).encode())


@pytest.fixture(scope="module")
def bagged_run(bagged_data, tmp_path_factory, train_small) -> Path:
    return train_small(bagged_data, tmp_path_factory.mktemp("bagged-run") / "run")


def test_files_frames_and_batches_are_predicted_alike(bagged_run, bagged_data, tmp_path: Path):
    model, path = load_trained(bagged_run), raw_file(bagged_data)
    found = predict(str(bagged_run), [path], tmp_path / "p.parquet")
    assert found["rejects"] == 0
    from_file = pd.read_parquet(tmp_path / "p.parquet").probability.to_numpy()
    frame = pd.read_csv(path, keep_default_na=False)
    np.testing.assert_allclose(model.predict(frame), from_file, rtol=1e-6)
    for name, separator in SEPARATORS.items():
        frame[name] = [cell.split(separator) if cell else None for cell in frame[name]]
    np.testing.assert_allclose(model.predict(frame), from_file, rtol=1e-6)
    empty = frame.assign(genres=None, codes=7).iloc[:5]  # as pandas reads columns where no cell holds several
    text = frame.assign(genres="", codes="7").iloc[:5]
    np.testing.assert_array_equal(model.predict(empty), model.predict(text))
    batches = [model.predict(batch.dense, batch.ids).numpy() for split in ("train", "valid", "test")
               for batch in bagged_data.batches(split)]  # fmt: skip
    np.testing.assert_allclose(np.sort(np.concatenate(batches)), np.sort(from_file), rtol=1e-5)


@pytest.mark.spawns
@pytest.mark.parametrize("to", ["pt2", pytest.param("onnx", marks=pytest.mark.skipif(not HAS_ONNX, reason="no onnx"))])
def test_exports_agree_with_the_model(bagged_run, bagged_data, tmp_path: Path, to: str):
    export(str(bagged_run), to, tmp_path / "served")  # which compares batches and raw rows itself
    about = json.loads((tmp_path / "served" / "model.json").read_text())
    assert about["program"]["inputs"]["ids"]["shape"] == ["batch", bagged_data.schema.n_ids]
    assert [column["vocabulary"] for column in about["sparse"]][-1] == "vocab/item.json"
    rows = as_objects(raw_file(bagged_data), True)[:20]
    rows[0] |= {"genres": None, "codes": [], "last": ""}
    done = subprocess.run([sys.executable, str(tmp_path / "served" / "score_row.py")], input=json.dumps(rows),
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    frame = pd.DataFrame(rows).assign(
        price=[float(row["price"]) for row in rows], last=[r["last"] or None for r in rows]
    )
    expected = load_trained(bagged_run).predict(
        frame.assign(codes=[";".join(map(str, r["codes"] or [])).replace("None", "NA") for r in rows])
    )
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], expected, atol=1e-5)


def test_importance_mixes_up_a_whole_bag(bagged_run, bagged_data):
    model = load_trained(bagged_run)
    parts = {part.name: part for part in column_parts(bagged_data.schema, {"both": ["codes", "user"]})}
    assert parts["codes"].sparse == (6, 7, 8)
    assert parts["both"].sparse == (6, 7, 8, 1)
    rows = ScoredRows.draw(bagged_data, "train", 900, seed=0)
    found = {p.name: p for p in measure(model, rows, [parts["genres"]], repeats=2, resamples=50).parts}
    dense, ids = (np.asarray(bagged_data.array("train", name))[rows.index] for name in ("dense", "ids"))
    order = np.random.default_rng(0).permutation(900)
    mixed = ids.copy()
    mixed[:, 2:6] = ids[order][:, 2:6]
    with torch.no_grad():
        losses = [
            torch.nn.functional.binary_cross_entropy(
                model.predict(torch.from_numpy(dense), torch.from_numpy(some.astype(np.int64))),
                torch.from_numpy(rows.label.astype(np.float32)),
            )
            for some in (mixed, ids)
        ]
    assert found["genres"].logloss == pytest.approx(float(losses[0] - losses[1]), abs=0.02)
    assert found["genres"].distinguishable


@pytest.mark.parametrize("limit", [{}, {"hash_rows": 5}])
def test_narrow_and_limited_tables_are_loaded_and_traced(bagged_data, tmp_path: Path, limit: dict[str, int]):
    """Groups of tables of different widths, attention in one of them; and ids that a limit folds."""
    torch.set_num_threads(1)
    space = PlusSpace(blocks=2, dense_dims=(0, 8), sparse_dims=(4,), table_widths=True).on(bagged_data.schema.n_sparse)
    rng = np.random.default_rng(0)
    arch = next(a for a in (space.sample(rng) for _ in range(500)) if a.narrow and a.first_order)
    settings = TrainSettings(batch_size=512, epochs=0.2, lr=0.03, threads=1, device="cpu", embeddings=EmbeddingSettings(width=8, **limit))  # fmt: skip
    train(arch, bagged_data, tmp_path / "run", settings, 1)
    model = load_trained(tmp_path / "run")
    found = model.predict(*((batch := next(bagged_data.batches("test", 5000))).dense, batch.ids))
    assert model.metrics["test"]["logloss"] == pytest.approx(
        float(torch.nn.functional.binary_cross_entropy(found, batch.label)), rel=1e-5
    )
    program = read_program(write_program(model, "pt2", tmp_path))
    checked = check_program(program, model, bagged_data)
    assert checked["rows"] > 300
    assert checked["max_abs_difference"] < 1e-6
