"""Columns of several values: what Python's csv and counting make of them, from text or Parquet, however it is cut and resumed."""

from __future__ import annotations

import csv
import resource
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recnas.data.bags import PaddedIds
from recnas.data.prepare import encode, stages
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepared import PreparedData
from recnas.data.raw.recipe import Recipe
from recnas.errors import DataError

SPLITS = ("train", "valid", "test")


def as_python(values: list[str], most: int, last: bool, missing: tuple[str, ...]) -> tuple[list[str], int]:
    """What is left of the values of a cell, and how many were cut off."""
    kept = values[-most:] if last else values[:most]
    return [value for value in kept if value and value not in missing], len(values) - len(kept)


def parts(cell: str, separator: str) -> list[str]:
    return cell.split(separator) if cell else []


def column_of(data: PreparedData, split: str, name: str) -> list[list[int]]:
    """The ids of every row of a bag, from the files themselves."""
    ends = np.fromfile(data.path / split / f"{name}.ends.i64", "<i8")
    values = np.fromfile(data.path / split / f"{name}.values.i32", "<i4")
    return [part.tolist() for part in np.split(values, ends[:-1])] if len(ends) else []


def ids_of(data: PreparedData, column: str) -> dict[str, int]:
    table = pq.read_table(data.path / "vocab" / f"{column}.parquet")
    return dict(zip(table.column("value").to_pylist(), table.column("id").to_pylist()))


def test_values_counts_and_ids_are_those_of_a_plain_computation(bagged_data, bagged_rows, tmp_path: Path):
    rows = bagged_rows(4000)
    # Prices are nearly unique and pass through unchanged: they tell which raw row each stored row is.
    by_price = {np.float32(r.price): r for r in rows.drop_duplicates("price", keep=False).itertuples()}
    number = ("NA", "NaN", "nan", "null", "NULL", "None", "N/A")
    rules = {"genres": ("|", 4, False, ("(none)",)), "codes": (";", 3, False, number), "last": (" ", 5, True, ())}
    stored, words = Counter(), Counter()
    vocabulary = {name: ids_of(bagged_data, {"last": "item"}.get(name, name)) for name in rules}
    for split in SPLITS:
        price = np.asarray(bagged_data.array(split, "dense"))[:, 0]
        for name, (separator, most, last, missing) in rules.items():
            found = column_of(bagged_data, split, name)
            assert len(found) == bagged_data.rows(split)
            for key, ids in zip(price, found):
                if key not in by_price:
                    continue
                values, _ = as_python(parts(getattr(by_price[key], name), separator), most, last, missing)
                assert ids == [vocabulary[name].get(value, 0) for value in values]
                stored[name] += 1
    assert min(stored.values()) > 1000
    # Statistics over all splits.
    for name, (separator, most, last, missing) in rules.items():
        made = [as_python(parts(cell, separator), most, last, missing) for cell in rows[name]]
        facts = [bagged_data.manifest["bags"][split][name] for split in SPLITS]
        assert sum(f["values"] for f in facts) == sum(len(values) for values, _ in made)
        assert sum(f["cut"] for f in facts) == sum(cut for _, cut in made) > 0
        assert sum(f["cut_rows"] for f in facts) == sum(cut > 0 for _, cut in made)
        assert sum(f["empty_rows"] for f in facts) == sum(not values for values, _ in made) > 0
    # Frequent values first, and those of a shared table counted in both columns.
    train = PrepareOptions(vocab_scope="all")
    rows.to_csv(tmp_path / "log.csv", index=False)
    everything = prepare(str(_recipe(tmp_path)), [tmp_path / "log.csv"], tmp_path / "all", train)
    for cell in rows["last"]:
        words.update(parts(cell, " ")[-5:])
    words.update(rows["item"])
    table = pq.read_table(everything.path / "vocab" / "item.parquet")
    counts = table.column("count").to_pylist()
    assert dict(zip(table.column("value").to_pylist(), counts)) == words
    assert counts == sorted(counts, reverse=True)
    assert not (everything.path / "vocab" / "last.parquet").exists()
    assert everything.schema.sparse[-1].rows == everything.schema.sparse[0].rows == 2 + len(words)


def _recipe(folder: Path) -> Path:
    from tests.conftest import BAGGED_RECIPE

    path = folder / "recipe.yaml"
    path.write_text(BAGGED_RECIPE)
    return path


def as_parquet(rows: pd.DataFrame, path: Path, lists: bool) -> None:
    """The same rows: cells of several values as lists, or as text."""
    columns = {"clicked": pa.array(rows.clicked), "price": pa.array(rows.price)}
    for name in ("item", "user"):
        columns[name] = pa.array(rows[name])
    for name, separator in (("genres", "|"), ("codes", ";"), ("last", " ")):
        if not lists:
            columns[name] = pa.array(rows[name])
            continue
        cells = [parts(cell, separator) or None for cell in rows[name]]
        if name == "codes":
            cells = [None if cell is None else [None if v == "NA" else int(v) for v in cell] for cell in cells]
            columns[name] = pa.array(cells, pa.large_list(pa.int64()))
        else:
            columns[name] = pa.array(cells, pa.list_(pa.string()))
    pq.write_table(pa.table(columns), path, row_group_size=700)


@pytest.mark.parametrize("lists", [True, False])
def test_parquet_gives_the_same_data(bagged_data, bagged_rows, bagged_recipe: Path, tmp_path: Path, lists: bool):
    as_parquet(bagged_rows(4000), tmp_path / "log.parquet", lists)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(bagged_recipe.read_text() + "format: parquet\n")
    found = prepare(str(recipe), [tmp_path / "log.parquet"], tmp_path / "d")
    assert found.fingerprint == bagged_data.fingerprint
    assert found.vocabulary == bagged_data.vocabulary
    assert found.verify() == []
    copy = pq.read_table(found.path / "valid.parquet")
    assert copy.column("last").to_pylist() == column_of(found, "valid", "last")
    assert copy.column("genres").to_pylist() == column_of(found, "valid", "genres")


def test_cut_into_many_blocks_and_killed_it_is_the_same(bagged_data, bagged_rows, tmp_path: Path, monkeypatch):
    bagged_rows(4000).to_csv(tmp_path / "log.csv", index=False)
    monkeypatch.setattr(stages, "open_work", lambda out, plan, size, real=stages.open_work: real(out, plan, 20_000))
    write, seen = encode.Encoder.encode, []

    def dies(self, chunk, split, offsets, values=None):
        seen.append(chunk)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return write(self, chunk, split, offsets, values)

    monkeypatch.setattr(encode.Encoder, "encode", dies)
    with pytest.raises(KeyboardInterrupt):
        prepare(str(_recipe(tmp_path)), [tmp_path / "log.csv"], tmp_path / "d", threads=1)
    journal = tmp_path / "d" / ".work" / "encoded.jsonl"
    assert journal.read_text().count("\n") >= 1
    # One of the rows that were written is not what it was: it is seen and made anew.
    values = next((tmp_path / "d" / ".work" / "done" / "train").glob("genres.values.i32"))
    raw = bytearray(values.read_bytes())
    raw[0] ^= 1
    values.write_bytes(raw)
    found = prepare(str(_recipe(tmp_path)), [tmp_path / "log.csv"], tmp_path / "d", threads=2)
    assert found.fingerprint == bagged_data.fingerprint
    assert found.manifest["bags"] == bagged_data.manifest["bags"]
    assert len(seen) > 10


def test_a_cell_of_a_million_values_is_cut_and_counted(bagged_rows, tmp_path: Path):
    rows, many = bagged_rows(60), 500_000  # lines of text end at a megabyte
    rows.loc[7, "genres"] = "|".join(["a"] * many)
    rows.loc[8, "genres"] = "|" * many
    rows.loc[9, ["genres", "last"]] = "", " ".join(f"{i % 10}" for i in range(many))
    rows.to_csv(tmp_path / "log.csv", index=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    data = prepare(str(_recipe(tmp_path)), [tmp_path / "log.csv"], tmp_path / "d", memory=1 << 30, threads=1)
    rows.loc[8, "genres"] = "a|" * (10**6)  # which Parquet can hold
    as_parquet(rows, tmp_path / "log.parquet", lists=True)
    with open(_recipe(tmp_path), "a") as recipe:
        recipe.write("format: parquet\n")
    large = prepare(str(tmp_path / "recipe.yaml"), [tmp_path / "log.parquet"], tmp_path / "p", memory=1 << 30)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # kB: within the 1 GB that was given
    facts = [[one.manifest["bags"][split] for split in SPLITS] for one in (data, large)]
    for some, held in zip(facts, (2 * many, 3 * many)):
        assert held - 10 < sum(f["genres"]["cut"] for f in some) < held + 200
    assert sum(f["last"]["cut"] for f in facts[0]) > many - 10
    for one in (data, large):
        assert max(len(row) for split in SPLITS for row in column_of(one, split, "genres")) == 4
        assert {name for name in ids_of(one, "item") if len(name) == 1} <= set("56789")
    assert max(len(row) for split in SPLITS for row in column_of(data, split, "last")) == 5


def test_a_bad_value_rejects_its_row(bagged_rows, tmp_path: Path):
    rows = bagged_rows(300)
    rows.loc[[5, 77, 201], "codes"] = ["7;x", "", "7;3.5;9"]
    rows.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(DataError, match="line 7, column codes: not an integer"):
        prepare(str(_recipe(tmp_path)), [tmp_path / "log.csv"], tmp_path / "d")
    data = prepare(str(_recipe(tmp_path)), [tmp_path / "log.csv"], tmp_path / "d", PrepareOptions(on_error="skip"))
    assert data.manifest["rejects"] == 2
    assert sum(data.manifest["rows"].values()) == 298
    listed = [line.split("\t")[2:] for line in (data.path / "rejects.tsv").read_text().splitlines()[1:]]
    assert listed == [
        ["codes", "not an integer", "7;x"],
        ["codes", "not an integer", "7;3.5;9"],
    ]


CELL = st.text(st.sampled_from(["a", "b", "|", ",", '"', "7", "é", " "]), max_size=12)


@settings(max_examples=20)
@given(st.lists(st.tuples(CELL, st.text(st.sampled_from("7;-x "), max_size=8)), min_size=3, max_size=30))
def test_any_cells_rows_in_are_rows_out_and_rejects(tmp_path_factory, cells: list[tuple[str, str]]):
    folder = tmp_path_factory.mktemp("cells")
    with open(folder / "log.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["clicked", "tags", "codes", "n"])
        writer.writerows([i % 2, tags, codes, i] for i, (tags, codes) in enumerate(cells))
    (folder / "r.yaml").write_text(
        'name: any\nseparator: ","\nquote: true\nheader: true\nlabel: {column: clicked}\n'
        "dense: [{columns: [n], transform: none, standardise: false}]\n"
        "bags: [{columns: [tags], max_values: 3}, {columns: [codes], kind: int, separator: ';', keep: last, max_values: 2}]\n"
    )
    try:
        options = PrepareOptions(on_error="skip", vocab_scope="all")
        data = prepare(str(folder / "r.yaml"), [folder / "log.csv"], folder / "d", options)
    except DataError as error:
        nothing_left = "rejected" in str(error) or "training split" in str(error)
        if not nothing_left:
            raise
        return
    good = {}
    for i, (tags, codes) in enumerate(cells):
        values, _ = as_python(parts(codes, ";"), 2, True, ())
        if all(v.removeprefix("-").isdigit() and v.count("-") < 2 for v in values):
            good[i] = as_python(parts(tags, "|"), 3, False, ())[0], [str(int(v)) for v in values]
    assert data.manifest["rows_in"] == len(cells)
    assert sum(data.manifest["rows"].values()) == len(good) == len(cells) - data.manifest["rejects"]
    tags, codes = ({i: v for v, i in ids_of(data, name).items()} for name in ("tags", "codes"))
    for split in SPLITS:
        for n, some, others in zip(
            np.asarray(data.array(split, "dense"))[:, 0],
            column_of(data, split, "tags"),
            column_of(data, split, "codes"),
        ):
            assert ([tags[i] for i in some], [codes[i] for i in others]) == good[int(n)]


def test_a_bag_of_a_side_file_and_of_a_hash(tmp_path: Path):
    (tmp_path / "films.csv").write_text("film,genres\n1,a|b|c\n2,b\n3,\n")
    (tmp_path / "log.csv").write_text("clicked,film\n" + "".join(f"{i % 2},{i % 4}\n" for i in range(200)))
    (tmp_path / "r.yaml").write_text(
        'name: films\nseparator: ","\nheader: true\nlabel: {column: clicked}\nsparse: [{columns: [film], kind: int}]\n'
        "bags: [{columns: [genres]}, {columns: [more], hash: 50}]\njoins: [{file: films.csv, key: film, add: [genres, more]}]\n"
    )
    text = (tmp_path / "films.csv").read_text().splitlines()
    (tmp_path / "films.csv").write_text(
        "\n".join(f"{line},{line.split(',')[1] if i else 'more'}" for i, line in enumerate(text)) + "\n"
    )
    data = prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "d")
    film, genre = ({i: v for v, i in ids_of(data, name).items()} for name in ("film", "genres"))
    wanted = {"0": [], "1": ["a", "b", "c"], "2": ["b"], "3": []}
    ids = np.asarray(data.array("train", "ids"))
    for row, some, hashed in zip(ids, column_of(data, "train", "genres"), column_of(data, "train", "more")):
        assert [genre[i] for i in some] == wanted[film[row[0]]]
        assert len(hashed) == len(some)
        assert all(2 <= i < 52 for i in hashed)
    assert data.schema.sparse[2].rows == 52


def test_the_next_day_keeps_ids_and_adds_new_ones(bagged_data, bagged_rows, tmp_path: Path):
    rows = bagged_rows(500, seed=9)
    rows.loc[:99, "last"] = "i3 new"
    rows.loc[:99, "genres"] = "fresh|a"
    rows.to_csv(tmp_path / "log.csv", index=False)
    like = prepare(None, [tmp_path / "log.csv"], tmp_path / "like", PrepareOptions(like=str(bagged_data.path)))
    more = prepare(None, [tmp_path / "log.csv"], tmp_path / "more", PrepareOptions(extend=str(bagged_data.path)))
    before = ids_of(bagged_data, "item")
    assert like.schema == bagged_data.schema
    assert ids_of(like, "item") == before
    assert ids_of(more, "item") == {**before, "new": 2 + len(before)}
    assert "fresh" in ids_of(more, "genres")
    assert more.schema.sparse[-1].rows == 3 + len(before)


def test_padded_ids_read_like_an_array(bagged_data):
    ids = bagged_data.array("train", "ids")
    assert isinstance(ids, PaddedIds)
    whole = np.asarray(ids)
    n = len(whole)
    assert whole.shape == ids.shape == (bagged_data.rows("train"), bagged_data.schema.n_ids)
    for number, field in enumerate(bagged_data.schema.sparse):
        columns = bagged_data.schema.id_columns(number)
        if field.bag is None:
            assert len(columns) == 1
            continue
        own = column_of(bagged_data, "train", field.name)
        length = field.bag.length
        assert whole[:, columns].tolist() == [row + [1] * (length - len(row)) for row in own]
    index = np.array([5, 0, n - 1, 5, 17])
    np.testing.assert_array_equal(ids[index], whole[index])
    np.testing.assert_array_equal(ids[3:40], whole[3:40])
    np.testing.assert_array_equal(ids[::7][:9], whole[::7][:9])
    np.testing.assert_array_equal(ids[-1], whole[-1])
    np.testing.assert_array_equal(ids[index[:, None], [0, 4, 2]], whole[index[:, None], [0, 4, 2]])
    np.testing.assert_array_equal(ids[np.array([-1, 0, -n])], whole[[-1, 0, -n]])
    np.testing.assert_array_equal(ids[whole[:, 0] == 3], whole[whole[:, 0] == 3])
    assert ids[0:0].shape == ids[[]].shape == (0, whole.shape[1])
    with pytest.raises(IndexError):
        ids[n]
    with pytest.raises(IndexError):
        ids[np.array([n])]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bags: [{columns: [tags], separator: 'ab'}]", "one ASCII character"),
        ("bags: [{columns: [tags], pool: attention}]", "pool"),
        ("bags: [{columns: [tags], shares: nobody}]", "no sparse column or bag"),
        ("bags: [{columns: [tags], shares: item, kind: int}]", "write kind: string"),
        ("bags: [{columns: [tags], shares: item, hash: 9}]", "leave them out"),
        ("bags: [{columns: [tags], max_values: 0}]", "max_values"),
        ("bags: [{columns: [item]}]", "named twice"),
        ("sequences: [{columns: [tags], pool: attention}]", "shares: item"),
        ("bags: [{columns: [a]}]\nsequences: [{columns: [tags], pool: attention, shares: a}]", "one value a row"),
    ],
)
def test_recipes_that_make_no_sense(tmp_path: Path, line: str, said: str):
    from recnas.data.raw.recipe import load_recipe
    from recnas.errors import ConfigError

    (tmp_path / "r.yaml").write_text(
        f'name: x\nseparator: ","\nheader: true\nlabel: {{column: c}}\nsparse: [{{columns: [item]}}]\n{line}\n'
    )
    with pytest.raises(ConfigError, match=said):
        load_recipe(str(tmp_path / "r.yaml"))


def test_recipes_and_schemas_without_bags_are_written_as_before(weighted_data, bagged_data):
    kept = weighted_data.manifest["options"]["recipe"]
    assert {"bags", "sequences"}.isdisjoint(kept)
    assert all(set(field) <= {"name", "rows", "edges"} for field in weighted_data.schema.to_dict()["sparse"])
    assert "bags" not in weighted_data.manifest
    again = Recipe.model_validate(bagged_data.manifest["options"]["recipe"])
    assert [column.bag for column in again.input_columns()] == [
        *[None] * 3,
        *(field.bag for field in bagged_data.schema.bags),
    ]
