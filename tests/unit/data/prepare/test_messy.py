"""What people really have: byte order marks, NA, yes and no, negative and unscaled numbers, the wrong file."""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recnas.cli.main import main
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.raw.recipe import load_recipe
from recnas.errors import ConfigError, DataError

START = "name: mine\nseparator: ','\nheader: true\nlabel: {column: y}\n"
PRICE_AND_USER = START + "dense: [{columns: [price]}]\nsparse: [{columns: [user], kind: int}]\n"


def prepared(folder: Path, recipe: str, text: str | bytes, out: str = "data", **options):
    (folder / "r.yaml").write_text(recipe)
    (folder / "log.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return prepare(str(folder / "r.yaml"), [folder / "log.csv"], folder / out, PrepareOptions(**options), threads=1)


def every(data, array: str) -> np.ndarray:
    return np.concatenate([data.array(split, array) for split in ("train", "valid", "test")])


ROWS = "".join(f"{n % 2},{n % 9},{n % 5}\n" for n in range(200))


def test_a_byte_order_mark_is_skipped(tmp_path: Path):
    plain = prepared(tmp_path, PRICE_AND_USER, "y,price,user\n" + ROWS)
    marked = prepared(tmp_path, PRICE_AND_USER, b"\xef\xbb\xbf" + ("y,price,user\n" + ROWS).encode(), "marked")
    assert marked.fingerprint == plain.fingerprint
    zipped = tmp_path / "log.csv.gz"
    zipped.write_bytes(gzip.compress(b"\xef\xbb\xbf" + ("y,price,user\n" + ROWS).encode()))
    assert prepare(str(tmp_path / "r.yaml"), [zipped], tmp_path / "gz", threads=1).fingerprint == plain.fingerprint


def test_words_for_a_missing_number_are_missing(tmp_path: Path):
    words = ["", "NA", "NaN", "nan", "null", "NULL", "None", "N/A", "unknown", "not known at all", "-1", "-1.0"]
    recipe = PRICE_AND_USER.replace(
        "[price]", "[price], fill: -7, missing: ['unknown', 'not known at all', '-1']"
    ).replace("kind: int", "kind: int, missing: [unknown, 'not known at all', '-1']")
    bad = "".join(f"1,{word},{word if word != '-1.0' else 'NA'}\n" for word in words)
    data = prepared(tmp_path, recipe, "y,price,user\n" + bad + ROWS, vocab_scope="all")
    assert data.manifest["rejects"] == 0
    assert sum(data.manifest["missing"][split]["user"] for split in ("train", "valid", "test")) == len(words)
    assert int((every(data, "dense") == -7).sum()) == len(words)
    train = data.array("train", "dense")
    assert data.manifest["dense"]["price"]["missing"] == int((train == -7).sum())
    with pytest.raises(DataError, match="column price: not a number"):
        prepared(tmp_path, PRICE_AND_USER, "y,price,user\n1,inf,3\n" + ROWS, "inf")
    with pytest.raises(DataError, match="column user: not an integer"):
        prepared(tmp_path, PRICE_AND_USER, "y,price,user\n1,1,n.a.\n" + ROWS, "other")


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        ("1", "0"),
        ("yes", "no"),
        ("TRUE", "FALSE"),
        ("True", "false"),
        ("t", "f"),
        ("Y", "N"),
        ("1", "-1"),
        ("1.0", "0.0"),
    ],
)
def test_labels_in_the_forms_people_write(tmp_path: Path, yes: str, no: str):
    text = "y,price,user\n" + "".join(f"{yes if n % 3 == 0 else no},{n},{n % 4}\n" for n in range(300))
    data = prepared(tmp_path, PRICE_AND_USER, text)
    clicks = sum(data.manifest["click_rate"][split] * data.rows(split) for split in ("train", "valid", "test"))
    assert clicks == pytest.approx(100)


def test_other_labels_point_to_at_least(tmp_path: Path):
    text = "y,price,user\n" + "".join(f"{1 + n % 5},{n},{n % 4}\n" for n in range(300))
    for options in ({}, {"on_error": "skip"}):
        shifted = text if not options else text.replace("\n1,", "\n2,")
        with pytest.raises(DataError) as caught:
            prepared(tmp_path, PRICE_AND_USER, shifted, **options)
        assert "Labels not understood: 2, 3, 4, 5" in str(caught.value)
        assert "label: {column: y, at_least: 4}" in str(caught.value)
        assert not (tmp_path / "data").exists()
    limited = PRICE_AND_USER.replace("{column: y}", "{column: y, at_least: 4}")
    assert prepared(tmp_path, limited, text).manifest["rejects"] == 0
    with pytest.raises(DataError, match=r"Labels not understood: click, view\. Understood are 0/1"):
        prepared(tmp_path, PRICE_AND_USER, "y,price,user\n" + "click,1,1\nview,1,1\n" * 20, "words")
    with pytest.raises(DataError, match="0 in some rows and -1 in others"):
        prepared(tmp_path, PRICE_AND_USER, "y,price,user\n" + "0,1,1\n-1,1,1\n1,1,1\n" * 20, "mixed")


def test_words_and_times_that_cannot_be_read_point_to_the_recipe(tmp_path: Path):
    with pytest.raises(DataError) as caught:
        prepared(tmp_path, PRICE_AND_USER, "y,price,user\n" + ROWS + "1,unkonwn,3\n1,V,2\n0,unkonwn,2\n")
    assert "line 202, column price: not a number ('unkonwn')" in str(caught.value)
    assert 'in the group of price in the recipe: missing: ["unkonwn", "V"]\n' in str(caught.value)
    words = PRICE_AND_USER.replace("[price]", '[price], missing: ["unkonwn", "V"]')  # as it was told
    assert prepared(tmp_path, words, "y,price,user\n" + ROWS + "1,unkonwn,3\n1,V,2\n").manifest["rejects"] == 0
    with pytest.raises(DataError, match="If user holds words, move it to a group of kind: string"):
        prepared(tmp_path, PRICE_AND_USER, "y,price,user\n" + "".join(f"1,2,user {n}\n" for n in range(20)), "names")
    for time in ("2024-03-11 06:47:17", "881250949"):
        timed = START + "sparse: [{columns: [user], kind: int}]\ntime: {column: price}\nprotocol: time-last-day\n"
        with pytest.raises(DataError, match="not a time YYMMDDHH") as caught:
            prepared(tmp_path, timed, f"y,price,user\n1,{time},3\n", "timed")
        assert "time: {days: 10}" in str(caught.value)


def test_what_differs_from_finished_data_is_named_with_both_values(tmp_path: Path):
    text = "y,price,user\n" + ROWS
    prepared(tmp_path, PRICE_AND_USER, text)
    (tmp_path / "other.csv").write_text(text + "1,2,3\n")
    with pytest.raises(DataError) as caught:
        prepare(
            str(tmp_path / "r.yaml"),
            [tmp_path / "other.csv"],
            tmp_path / "data",
            PrepareOptions(min_count=3),
            threads=1,
        )
    sizes = [(tmp_path / name).stat().st_size for name in ("log.csv", "other.csv")]
    assert (
        f"min_count was null, now 3; raw was log.csv ({sizes[0]:,} bytes), now other.csv ({sizes[1]:,} bytes)."
        in str(caught.value)
    )
    os.utime(tmp_path / "log.csv", ns=(1, 1))
    with pytest.raises(DataError, match="other options: the raw file was written to since"):
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "data", threads=1)


def test_negative_numbers_under_log1p_are_counted_and_told(tmp_path: Path, capsys):
    rows = [(n % 2, n - 20, n % 4) for n in range(300)]
    text = "y,price,user\n" + "".join(f"{y},{price},{user}\n" for y, price, user in rows)
    data = prepared(tmp_path, PRICE_AND_USER, text)
    (warning,) = [w for w in data.warnings if w.kind == "negative-numbers"]
    count = data.manifest["dense"]["price"]["negative"]
    assert 10 < count <= 20  # of 20, those that fell into training
    assert f"{count} of {data.rows('train')} training values are negative" in warning.message
    assert "transform: none" in warning.message
    assert not np.signbit(every(data, "dense")).any()  # the mark of a negative number stays inside
    assert main(["inspect", str(data.path)]) == 0
    shown = capsys.readouterr().out
    assert warning.message in shown
    assert "dense column" in shown
    plain = PRICE_AND_USER.replace("[price]", "[price], transform: none")
    assert not [w for w in prepared(tmp_path, plain, text, "plain").warnings if w.kind == "negative-numbers"]


def test_columns_not_of_the_size_of_one_are_standardised(tmp_path: Path):
    rng = np.random.default_rng(3)
    times = 874_724_710 + rng.integers(0, 10**6, 400)
    text = "y,price,user\n" + "".join(f"{n % 2},{t if n % 7 else ''},{n % 4}\n" for n, t in enumerate(times))
    recipe = PRICE_AND_USER.replace("[price]", "[price], transform: none")
    data = prepared(tmp_path, recipe, text)
    (field,) = data.schema.dense
    assert field.standardised
    plain = prepared(tmp_path, recipe + "standardise: false\n", text, "plain")
    assert not plain.schema.dense[0].standardised
    raw, found = plain.array("train", "dense")[:, 0].astype(np.float64), data.array("train", "dense")[:, 0]
    known = raw != 0
    assert field.mean == pytest.approx(raw[known].mean(), rel=1e-7)
    assert field.std == pytest.approx(raw[known].std(), rel=1e-3)  # float32 keeps times to 64 seconds only
    np.testing.assert_allclose(found[known], (raw[known] - field.mean) / field.std, atol=2e-4)
    assert (found[~known] == 0).all()  # a missing cell is the mean
    seconds = times[np.arange(400) % 7 != 0]
    assert len(np.unique(every(data, "dense"))) > 0.95 * len(np.unique(seconds))  # single seconds stay apart
    assert data.array("train", "dense")[known, 0].mean() == pytest.approx(0, abs=1e-6)
    assert data.array("train", "dense")[known, 0].std() == pytest.approx(1, abs=1e-5)
    always = prepared(tmp_path, PRICE_AND_USER.replace("[price]", "[price], standardise: true"), text, "always")
    assert always.schema.dense[0].standardised
    small = prepared(tmp_path, recipe, "y,price,user\n" + ROWS, "small")
    assert not small.schema.dense[0].standardised


@pytest.mark.parametrize("layout", ["criteo", "kdd12"])
def test_published_columns_are_within_the_limit(layout: str, tmp_path: Path):
    """With `standardise: auto` these recipes would give the same values."""
    from recnas.data.synthetic import generate
    from recnas.resources import resource_dir

    generate(layout, 4000, 3, tmp_path / "raw.txt", threads=1)
    given = prepare(layout, [tmp_path / "raw.txt"], tmp_path / "given", PrepareOptions(parquet=False), threads=1)
    text = (resource_dir("datasets") / layout / "recipe.yaml").read_text()
    (tmp_path / "auto.yaml").write_text(text.replace("standardise: false", "standardise: auto"))
    auto = prepare(str(tmp_path / "auto.yaml"), [tmp_path / "raw.txt"], tmp_path / "auto", PrepareOptions(parquet=False), threads=1)  # fmt: skip
    assert not any(field.standardised for field in auto.schema.dense)
    np.testing.assert_array_equal(every(auto, "dense"), every(given, "dense"))


def test_a_number_beyond_32_bits_is_a_bad_cell(tmp_path: Path):
    recipe = PRICE_AND_USER.replace("[price]", "[price], transform: none")
    with pytest.raises(DataError, match="line 2, column price: too large for a 32-bit number"):
        prepared(tmp_path, recipe, "y,price,user\n1,1e300,3\n" + ROWS)
    fine = prepared(tmp_path, PRICE_AND_USER + "standardise: false\n", "y,price,user\n1,1e300,3\n" + ROWS, "log")
    assert every(fine, "dense").max() == pytest.approx(math.log(1e300), rel=1e-6)


def test_a_refused_first_try_leaves_nothing_behind(tmp_path: Path):
    for bad in (
        "y,price,user\n7,1,1\n" + ROWS,
        "y,price,other\n" + ROWS,
        "y,price,user\n",
        "y,price,user\n1,x,1\n" + ROWS,
    ):
        with pytest.raises(DataError):
            prepared(tmp_path, PRICE_AND_USER, bad)
        assert not (tmp_path / "data").exists()
    assert prepared(tmp_path, PRICE_AND_USER, "y,price,user\n" + ROWS).verify() == []
    (tmp_path / "kept").mkdir()
    with pytest.raises(DataError):
        prepared(tmp_path, PRICE_AND_USER, "y,price,user\n7,1,1\n", "kept")
    assert (tmp_path / "kept").exists()  # it was there before
    assert prepared(tmp_path, PRICE_AND_USER, "y,price,user\n" + ROWS, "kept").verify() == []


def test_the_wrong_thing_as_raw_is_named(tmp_path: Path):
    data = prepared(tmp_path, PRICE_AND_USER, "y,price,user\n" + ROWS)
    recipe = str(tmp_path / "r.yaml")
    with pytest.raises(DataError, match="is a prepared data set"):
        prepare(recipe, [data.path], tmp_path / "x")
    for day in ("2024-03-01", "2024-03-02"):
        (tmp_path / "hive" / day).mkdir(parents=True)
        (tmp_path / "hive" / day / "part.csv").write_text("y,price,user\n" + ROWS)
    with pytest.raises(DataError, match="only folders") as caught:
        prepare(recipe, [tmp_path / "hive"], tmp_path / "x")
    assert f"--raw {tmp_path}/hive/*/" in str(caught.value)
    found = prepare(recipe, sorted((tmp_path / "hive").glob("*/")), tmp_path / "x", threads=1)
    assert found.manifest["rows_in"] == 400
    pq.write_table(pa.table({"y": [0, 1] * 50, "price": [1] * 100, "user": [3] * 100}), tmp_path / "log.parquet")
    with pytest.raises(DataError, match="is a Parquet file") as caught:
        prepare(recipe, [tmp_path / "log.parquet"], tmp_path / "p")
    assert all(character.isprintable() or character == "\n" for character in str(caught.value))
    with pytest.raises(DataError, match="is not a Parquet file") as caught:
        prepare("parquet", [tmp_path / "log.csv"], tmp_path / "p")
    assert "format: text" in str(caught.value)
    assert not (tmp_path / "p").exists()


def test_a_recipe_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(ConfigError, match="There is no recipe file") as caught:
        load_recipe(str(tmp_path / "mine.yaml"))
    assert "recnas datasets" in str(caught.value)
    assert "configs" not in str(caught.value)


def test_a_quoted_header_keeps_its_separators(tmp_path: Path):
    recipe = START + "quote: true\ndense: [{columns: ['price, EUR']}]\nsparse: [{columns: [user], kind: int}]\n"
    data = prepared(tmp_path, recipe, 'y,"price, EUR",user\n' + ROWS)
    assert [field.name for field in data.schema.dense] == ["price, EUR"]


def test_a_file_where_a_folder_should_be(tmp_path: Path, capsys):
    (tmp_path / "log.csv").write_text("y,price,user\n" + ROWS)
    (tmp_path / "r.yaml").write_text(PRICE_AND_USER)
    assert main(["inspect", str(tmp_path / "log.csv")]) == 2
    assert "is a file, not a folder of prepared data" in capsys.readouterr().err
    for out in (tmp_path / "log.csv", tmp_path / "log.csv" / "data"):
        with pytest.raises(DataError, match="is a file, not a folder"):
            prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], out)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path: Path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(DataError, match="may not be written to"):
        prepared(tmp_path, PRICE_AND_USER, "y,price,user\n" + ROWS, "closed/data")
