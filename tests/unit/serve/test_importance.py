"""Permutation importance against a slow computation, and against what a generated log was planted with."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, roc_auc_score

from recnas.cli.main import main
from recnas.data.prepare.prepare import PrepareOptions, prepare
from recnas.data.synthetic import generate
from recnas.errors import DataError, RunError
from recnas.jobs.importance import importance
from recnas.seeds import stream
from recnas.serve.importance import ScoredRows, column_parts, measure
from recnas.serve.load import load_trained
from recnas.space.nasrec import NasrecSpace
from recnas.train.settings import EmbeddingSettings, TrainSettings
from recnas.train.standalone import train


def one_by_one(model, dense: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Probabilities of rows, each in a batch of its own."""
    rows = zip(torch.from_numpy(dense), torch.from_numpy(ids.astype(np.int64)))
    return np.array([float(model.predict(d[None], i[None])) for d, i in rows], dtype=np.float64)


@pytest.mark.parametrize(
    ("name", "columns"),
    [("C17", ["C17"]), ("I2", ["I2"]), ("some", ["C14", "I2", "C6"])],
    ids=["sparse", "dense", "group"],
)
def test_one_part_is_what_a_slow_computation_gives(trained_run: Path, criteo_data, name: str, columns: list[str]):
    model, rows, repeats, seed = load_trained(trained_run), 300, 2, 4
    groups = {} if columns == [name] else {name: columns}
    part = next(part for part in column_parts(model.schema, groups) if part.name == name)
    chosen = ScoredRows.draw(criteo_data, "valid", rows, seed)
    found = measure(model, chosen, [part], repeats=repeats, seed=seed, batch=64)

    index = np.sort(stream(seed, "importance-rows").choice(criteo_data.rows("valid"), rows, replace=False))
    dense, ids, label = (np.array(criteo_data.array("valid", array))[index] for array in ("dense", "ids", "label"))
    names = [field.name for field in (*model.schema.dense, *model.schema.sparse)]
    plain = one_by_one(model, dense, ids)
    loss_rise, auc_fall = [], []
    for repeat in range(repeats):
        order = stream(seed, "importance-order", repeat, *sorted(map(names.index, columns))).permutation(rows)
        other_dense, other_ids = dense.copy(), ids.copy()
        for row in range(rows):
            for place in map(names.index, columns):
                if place < dense.shape[1]:
                    other_dense[row, place] = dense[order[row], place]
                else:
                    other_ids[row, place - dense.shape[1]] = ids[order[row], place - dense.shape[1]]
        mixed = one_by_one(model, other_dense, other_ids)
        loss_rise.append(log_loss(label, mixed) - log_loss(label, plain))
        auc_fall.append(roc_auc_score(label, plain) - roc_auc_score(label, mixed))
    assert found.logloss == pytest.approx(log_loss(label, plain), abs=1e-6)
    assert found.auc == pytest.approx(roc_auc_score(label, plain), abs=1e-6)
    (only,) = found.parts
    assert only.logloss == pytest.approx(np.mean(loss_rise), abs=1e-6)
    assert abs(only.logloss) > 1e-6  # the comparison is about something
    # Sums of float32 logits may order nearly equal scores otherwise: a pair or two of some 20,000.
    assert only.auc_loss == pytest.approx(np.mean(auc_fall), abs=2e-4)


def test_an_interval_holds_both_rows_and_repeats(trained_run: Path, criteo_data):
    """Brute force: rows and repeats drawn again, one resample at a time."""
    model, repeats, seed = load_trained(trained_run), 4, 0
    (part,) = [part for part in column_parts(model.schema, {}) if part.name == "C14"]
    chosen = ScoredRows.draw(criteo_data, "valid", 400, seed)
    (found,) = measure(model, chosen, [part], repeats=repeats, seed=seed).parts

    def losses(order: np.ndarray | None) -> np.ndarray:
        score = chosen.logits(model, None if order is None else part, order, 128).astype(np.float64)
        return np.log1p(np.exp(-np.where(chosen.label == 1, score, -score)))

    place = model.schema.n_dense + part.sparse[0]
    orders = [stream(seed, "importance-order", repeat, place).permutation(400) for repeat in range(repeats)]
    rise = np.stack([losses(order) - losses(None) for order in orders])
    rng, drawn = np.random.default_rng(99), []
    for _ in range(6000):
        per_repeat = rise[:, rng.integers(400, size=400)].mean(1)
        centre = per_repeat.mean()
        again = per_repeat[rng.integers(repeats, size=repeats)].mean()
        drawn.append(centre + (again - centre) * (repeats / (repeats - 1)) ** 0.5)
    low, high = np.quantile(drawn, [0.025, 0.975])
    width = high - low
    assert found.logloss_interval == pytest.approx((low, high), abs=0.08 * width)


def test_a_part_does_not_depend_on_what_else_is_measured(trained_run: Path, criteo_data):
    model = load_trained(trained_run)
    parts = column_parts(model.schema, {"pair": ["C2", "C3"]})
    chosen = ScoredRows.draw(criteo_data, "valid", 500, 1)
    together = {part.name: part for part in measure(model, chosen, parts, repeats=2, resamples=64).parts}
    for part in (parts[0], parts[20], parts[-1]):
        (alone,) = measure(model, chosen, [part], repeats=2, resamples=64, batch=500).parts
        assert alone.logloss == pytest.approx(together[part.name].logloss, abs=1e-7)
    assert together["pair"].columns == ("C2", "C3")
    assert len(together) == model.schema.n_dense + model.schema.n_sparse + 1


def test_planted_columns_come_first_and_the_others_cannot_be_told_from_zero(tmp_path: Path):
    torch.set_num_threads(1)
    made = generate("criteo", 40_000, 3, tmp_path / "ads.tsv", strength=1.5, threads=1)
    options = PrepareOptions(min_count=20, parquet=False)
    data = prepare("criteo", [tmp_path / "ads.tsv"], tmp_path / "data", options, threads=1)
    settings = TrainSettings(
        batch_size=256, epochs=1, lr=0.01, threads=1, device="cpu", embeddings=EmbeddingSettings(width=8)
    )
    arch = NasrecSpace("nasrec-full", blocks=2).sample(np.random.default_rng(1))
    train(arch, data, tmp_path / "run", settings, 1)
    found = importance(str(tmp_path / "run"), repeats=3).found

    strength: dict[str, float] = {}
    for term in json.loads(Path(made.truth_path).read_text())["planted_terms"]:
        for column in term["columns"]:
            strength[column] = strength.get(column, 0.0) + term["std"] ** 2
    strongest = sorted(strength, key=lambda column: -strength[column])[:5]
    assert {part.name for part in found.parts[:5]} == set(strongest)
    assert all(part.distinguishable and part.logloss > 0 for part in found.parts[:5])
    unplanted = [part for part in found.parts if part.name not in strength]
    assert len(unplanted) >= 10
    for part in unplanted:
        assert part.logloss_interval[0] <= 0 <= part.logloss_interval[1], part
        assert not part.distinguishable


# The command


def test_the_table_the_json_and_the_file_agree(trained_run: Path, tmp_path: Path, capsys):
    out = tmp_path / "made" / "columns.csv"
    command = ["importance", f"{trained_run}:best", "--rows", "200", "--repeats", "1", "--quiet"]
    command += ["--group", "pair=C14,C17", "-o", str(out)]
    assert main([*command, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["rows"], answer["repeats"], answer["split"]) == (200, 1, "valid")
    rises = [part["logloss"] for part in answer["parts"]]
    assert rises == sorted(rises, reverse=True)
    with out.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["name"] for line in lines] == [part["name"] for part in answer["parts"]]
    assert [float(line["logloss_increase"]) for line in lines] == rises
    assert next(line for line in lines if line["name"] == "pair")["columns"] == "C14 C17"
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "pair (C14, C17)" in text
    vague = [part["name"] for part in answer["parts"] if not part["distinguishable"]]
    assert f"not distinguishable from zero: {', '.join(vague)}\n" in text
    assert [path.name for path in out.parent.iterdir()] == ["columns.csv"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--group", "user=C1,c14"], "did you mean 'C14'?"),
        (["--group", "user"], "--group user=C1,C7"),
        (["--group", "C1=C2,C3"], "--group C1_group=C2,C3"),
        (["--group", "a=C1", "--group", "a=C2"], "Two groups are named 'a'"),
        (["--rows", "0"], "--rows must be at least 1"),
        (["--repeats", "0"], "--repeats must be at least 1"),
        (["--seed", "-1"], "--seed 0"),
        (["-o", "columns.parquet"], "-o columns.csv"),
    ],
)
def test_mistakes_are_answered_with_what_to_type(trained_run: Path, capsys, options: list[str], said: str):
    assert main(["importance", str(trained_run), "--quiet", *options]) == 2
    assert said in capsys.readouterr().err


def test_other_data_are_refused(trained_run: Path, criteo_file: Path, tmp_path: Path):
    other = prepare("criteo", [criteo_file], tmp_path / "other", PrepareOptions(min_count=50, parquet=False), threads=1)
    with pytest.raises(DataError, match="holds other data than the model was trained on") as error:
        importance(str(trained_run), data=other.path)
    assert "--data DIR" in str(error.value)


def test_an_empty_validation_is_refused(criteo_data, monkeypatch):
    monkeypatch.setitem(criteo_data.manifest["rows"], "valid", 0)
    with pytest.raises(DataError, match=r"split valid of .* has no rows") as error:
        ScoredRows.draw(criteo_data, "valid", 100, 0)
    assert "--protocol" in str(error.value)


def test_rows_of_one_label_have_no_auc(trained_run: Path, criteo_data):
    model = load_trained(trained_run)
    chosen = ScoredRows(criteo_data, "valid", np.flatnonzero(np.array(criteo_data.array("valid", "label")) == 0)[:50])
    (found,) = measure(model, chosen, column_parts(model.schema, {})[-1:], repeats=2, resamples=64).parts
    assert found.auc_loss is None
    assert found.auc_loss_interval is None


def test_a_diverged_model_is_refused(trained_run: Path, criteo_data):
    model = load_trained(trained_run)
    model.tables.stacks[0].fill_(float("nan"))
    with pytest.raises(RunError, match="diverged"):
        measure(model, ScoredRows.draw(criteo_data, "valid", 10, 0), column_parts(model.schema, {}), repeats=1)
