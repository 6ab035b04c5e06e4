"""Bad data are noticed when they are prepared, and each warning only when it is true."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recnas.cli.main import main
from recnas.data import quality
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.data.quality import DataWarning, repeated_share
from recnas.data.synthetic import generate

RECIPE = (
    "name: mine\nseparator: ','\nheader: true\nlabel: {column: y}\n"
    "dense: [{columns: [price]}]\nsparse: [{columns: [user, item], kind: int}]\n"
)


def prepared(folder: Path, rows, recipe: str = RECIPE, **options) -> PreparedData:
    (folder / "r.yaml").write_text(recipe)
    (folder / "log.csv").write_text("y,price,user,item\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return prepare(str(folder / "r.yaml"), [folder / "log.csv"], folder / "data", PrepareOptions(**options), threads=1)


def kinds(data: PreparedData) -> list[str]:
    return [warning.kind for warning in data.warnings]


def good_rows(count: int = 3000):
    rng = np.random.default_rng(0)
    return [(n % 2, round(rng.random() * 100, 4), n % 7, n % 11) for n in range(count)]


def test_good_data_have_no_warning(tmp_path: Path):
    assert prepared(tmp_path, good_rows()).warnings == []


def test_one_class_and_few_rows(tmp_path: Path):
    data = prepared(tmp_path, [(0, *row[1:]) for row in good_rows(300)])
    assert sorted(set(kinds(data))) == ["few-rows", "one-class"]
    assert kinds(data).count("one-class") == 3
    assert kinds(data).count("few-rows") == 2
    assert f"The test split has {data.rows('test')} rows" in " ".join(w.message for w in data.warnings)


def test_constant_columns_and_columns_without_values(tmp_path: Path):
    rows = [(y, 5, "", n) for n, (y, *_) in enumerate(good_rows())]
    data = prepared(tmp_path, rows, RECIPE + "min_count: 2\n")
    found = {warning.message.split(":")[0]: warning.kind for warning in data.warnings}
    assert found["Column price"] == "constant"
    assert found["Column user"] == "no-values"
    assert found["Column item"] == "no-values"  # every value once, and the minimum count is 2
    one = prepared_again(tmp_path, [(y, "", 4, n % 5) for n, (y, *_) in enumerate(good_rows())])
    found = {warning.message.split(":")[0]: warning.kind for warning in one.warnings}
    assert found["Column price"] == "no-values"
    assert found["Column user"] == "constant"
    assert "Column item" not in found


def prepared_again(folder: Path, rows) -> PreparedData:
    (folder / "again").mkdir()
    return prepared(folder / "again", rows)


def test_rows_that_train_holds_too(tmp_path: Path):
    """Every row three times: about nine in ten test rows have a twin among the training rows."""
    data = prepared(tmp_path, [row for row in good_rows(2000) for _ in range(3)])
    rows = {split: _rows(data, split) for split in ("train", "test")}
    twins = set(rows["train"])
    share = sum(row in twins for row in rows["test"]) / len(rows["test"])
    (warning,) = [w for w in data.warnings if w.kind == "repeated-rows"]
    assert 0.9 < share < 1
    assert warning.message.startswith(f"{share:.1%} of the test rows")


def _rows(data: PreparedData, split: str) -> list[tuple]:
    arrays = (data.array(split, name) for name in ("dense", "ids", "label"))
    return [(*dense.tolist(), *ids.tolist(), int(label)) for dense, ids, label in zip(*arrays)]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.lists(st.integers(0, 30), max_size=60))
def test_the_share_of_repeated_rows_equals_a_count_by_sets(test, train):
    def blocks(numbers):
        for start in range(0, len(numbers), 7):
            some = np.array(numbers[start : start + 7])
            yield (
                (some[:, None] / 3).astype(np.float32),
                (some[:, None] % 5).astype(np.int32),
                (some % 2).astype(np.int8),
            )

    expected = sum(number in set(train) for number in test) / len(test)
    assert repeated_share(blocks(test), blocks(train), len(test)) == pytest.approx(expected)


def test_large_test_splits_are_sampled(monkeypatch):
    """Memory is bounded by following every k-th hash; the share stays about right."""
    monkeypatch.setattr(quality, "MOST_HASHES", 500)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 2**31, (5000, 3)).astype(np.int32)
    none, label = np.zeros((5000, 0), np.float32), np.zeros(5000, np.int8)
    share = repeated_share([(none, ids, label)], [(none[:2000], ids[:2000], label[:2000])], 5000)
    assert share == pytest.approx(0.4, abs=0.08)


def test_no_sparse_column_is_accepted_with_a_warning(tmp_path: Path):
    recipe = RECIPE.replace("sparse: [{columns: [user, item], kind: int}]\n", "")
    data = prepared(tmp_path, good_rows(), recipe)
    assert data.schema.n_sparse == 0
    assert kinds(data) == ["no-sparse-columns"]
    assert "only dnn" in data.warnings[0].message  # searches do run: tests/jobs/test_odd_data.py


@pytest.mark.parametrize(("known", "told"), [(20, True), (100, False)])
def test_a_column_of_which_nearly_all_values_are_unknown(tmp_path: Path, known: int, told: bool):
    """A time of the row, where a few coincide: 0.7 % or 3.3 % of 3,000 rows hold a value that is not rare."""
    rows = [(y, price, user, 1 if n < known else 10 + n) for n, (y, price, user, _) in enumerate(good_rows())]
    data = prepared(tmp_path, rows, RECIPE + "min_count: 2\n")
    assert [w.kind for w in data.warnings if "Column item" in w.message] == (["no-values"] if told else [])


def test_warnings_are_printed_and_stored(tmp_path: Path, capsys):
    data = prepared(tmp_path, good_rows(200))
    stored = json.loads((data.path / "manifest.json").read_text())["warnings"]
    assert [DataWarning(**entry) for entry in stored] == data.warnings != []
    command = ["prepare", str(tmp_path / "r.yaml"), "--raw", str(tmp_path / "log.csv"), "--out", str(data.path)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    for warning in data.warnings:
        assert f"warning: {warning.message}" in shown
    assert main(["inspect", str(data.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == stored


@pytest.mark.parametrize(
    ("expected", "limit", "said"),
    [
        (3000, None, None),
        (3001, None, "Read 3,000 rows, the data set is known to have 3,001: was the download cut short?"),
        (45_840_617, None, "Read 3,000 rows, the data set is known to have 45,840,617: was the download cut short?"),
        (2999, None, "Read 3,000 rows, the data set is known to have 2,999: was a file named twice"),
        (45_840_617, 2000, None),  # a part was asked for
    ],
)
def test_other_rows_than_the_recipe_knows_of(tmp_path: Path, expected: int, limit: int | None, said: str | None):
    data = prepared(tmp_path, good_rows(), RECIPE + f"expected_rows: {expected}\n", limit=limit)
    assert kinds(data) == ([] if said is None else ["row-count"])
    assert all(warning.message.startswith(str(said)) for warning in data.warnings)


def test_rows_that_were_rejected_were_read_too(tmp_path: Path):
    rows = [*good_rows(2999), (1, "cheap", 1, 1)]
    data = prepared(tmp_path, rows, RECIPE + "expected_rows: 3000\n", on_error="skip")
    assert data.manifest["rejects"] == 1
    assert kinds(data) == []


def test_generated_rows_need_not_be_as_many_as_published(tmp_path: Path):
    generate("criteo", 2000, 1, tmp_path / "ads.tsv", threads=1)
    assert "row-count" not in kinds(prepare("criteo", [tmp_path / "ads.tsv"], tmp_path / "generated", threads=1))
    (tmp_path / "train.txt").write_bytes((tmp_path / "ads.tsv").read_bytes())  # a file of Criteo's, for all we know
    data = prepare("criteo", [tmp_path / "train.txt"], tmp_path / "cut", threads=1)
    (warning,) = [warning for warning in data.warnings if warning.kind == "row-count"]
    assert "Read 2,000 rows, the data set is known to have 45,840,617" in warning.message
