"""Raw files that come as train, validation and test stay so."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recnas.cli.main import main
from recnas.data.prepare.prepare import PrepareOptions, prepare
from recnas.data.prepared import PreparedData
from recnas.data.raw.sources import ReadySplit
from recnas.errors import ConfigError, DataError

RECIPE = "name: mine\nseparator: ','\nheader: true\nlabel: {column: y}\ndense: [{columns: [price], transform: none}]\nsparse: [{columns: [user]}]\n"
SIZES = {"train": 300, "valid": 40, "test": 60}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files; users from u20 on are met in validation and test only."""
    rng = np.random.default_rng(3)
    for split, size in SIZES.items():
        users = rng.integers(0, 20 if split == "train" else 30, size)
        frame = pd.DataFrame({"y": rng.integers(0, 2, size), "price": rng.normal(size=size).round(3), "user": users})
        frame["user"] = "u" + frame["user"].astype(str)
        frame.to_csv(tmp_path / f"{split}.csv", index=False)
    (tmp_path / "r.yaml").write_text(RECIPE)
    return tmp_path


def ready(folder: Path, **other: list[Path | str]) -> ReadySplit:
    return ReadySplit(**{**{split: [folder / f"{split}.csv"] for split in SIZES}, **other})


def ready_data(folder: Path, raw: ReadySplit, out: str = "data", **options) -> PreparedData:
    return prepare(str(folder / "r.yaml"), raw, folder / out, PrepareOptions(**options), threads=2)


def test_every_row_stays_in_its_file_and_only_training_rows_are_counted(folder: Path):
    data = ready_data(folder, ready(folder))
    assert data.manifest["options"]["protocol"] == "files"
    frames = {split: pd.read_csv(folder / f"{split}.csv") for split in SIZES}
    counts = frames["train"]["user"].value_counts()
    for split, frame in frames.items():
        assert (data.array(split, "label") == frame["y"].to_numpy()).all()
        assert np.allclose(data.array(split, "dense")[:, 0], frame["price"].to_numpy(), atol=1e-6)
        unknown = ~frame["user"].isin(counts.index).to_numpy()
        assert ((data.array(split, "ids")[:, 0] == 0) == unknown).all()
        assert unknown.any() == (split != "train")
    assert data.schema.sparse[0].rows == 2 + len(counts)


def test_parts_compressed_or_split_further_give_the_same_data(folder: Path):
    whole = ready_data(folder, ready(folder))
    header, *rows = (folder / "train.csv").read_text().splitlines(keepends=True)
    (folder / "parts").mkdir()
    for number, part in enumerate((rows[:1], rows[1:200], rows[200:])):
        (folder / "parts" / f"{number}.csv").write_text("".join([header, *part]))
    (folder / "valid.csv.gz").write_bytes(gzip.compress((folder / "valid.csv").read_bytes()))
    parts = ready(folder, train=[folder / "parts"], valid=[folder / "valid.csv.gz"])
    assert ready_data(folder, parts, "parts-data").fingerprint == whole.fingerprint


def test_headers_may_differ_in_columns_that_the_recipe_does_not_name(folder: Path):
    whole = ready_data(folder, ready(folder))
    train = pd.read_csv(folder / "train.csv")
    train.insert(1, "origin", "kept")  # the columns after it move by one
    train.to_csv(folder / "with-origin.csv", index=False)
    data = ready_data(folder, ready(folder, train=[folder / "with-origin.csv"]), "with-origin")
    assert data.fingerprint == whole.fingerprint
    assert data.manifest["columns"] == ["y", "price", "user"]


def test_it_is_the_split_that_an_index_of_the_same_rows_gives(folder: Path):
    np.save(folder / "index.npy", np.repeat([0, 1, 2], list(SIZES.values())).astype(np.uint8))
    files = [folder / f"{split}.csv" for split in SIZES]
    options = PrepareOptions(protocol="index", split_index=str(folder / "index.npy"))
    by_index = prepare(str(folder / "r.yaml"), files, folder / "by-index", options)
    assert ready_data(folder, ready(folder)).fingerprint == by_index.fingerprint


def test_a_rejected_row_moves_no_other(folder: Path):
    lines = (folder / "train.csv").read_text().splitlines(keepends=True)
    lines[300] = "maybe,1,u1\n"
    (folder / "train.csv").write_text("".join(lines))
    data = ready_data(folder, ready(folder), on_error="skip")
    assert data.manifest["rows"] == {**SIZES, "train": 299}
    assert (data.array("valid", "label") == pd.read_csv(folder / "valid.csv")["y"].to_numpy()).all()


def test_swapped_files_are_another_data_set(folder: Path):
    ready_data(folder, ready(folder))
    swapped = ready(folder, valid=[folder / "test.csv"], test=[folder / "valid.csv"])
    with pytest.raises(DataError, match="other options: raw is another one"):
        ready_data(folder, swapped)


def test_what_does_not_fit_is_refused_and_leaves_nothing(folder: Path):
    (folder / "none.csv").write_text("y,price,user\n")
    for raw, message in (
        (ready(folder, test=[]), "--test is not given"),
        (ready(folder, valid=[], test=[]), "--valid and --test are not given"),
        (ready(folder, valid=[folder / "absent.csv"]), r"no file .*absent.csv"),
        (ready(folder, test=["ftp://logs/day-1"]), "files are not read by ftp://"),
        (ready(folder, valid=[folder / "train.csv"]), "given to --train and to --valid"),
        (ready(folder, valid=[folder / "none.csv"]), r"no rows in .*none.csv"),
    ):
        with pytest.raises((ConfigError, DataError), match=message):
            ready_data(folder, raw)
        assert not (folder / "data").exists() or not any((folder / "data").iterdir())
    with pytest.raises(DataError) as caught:
        ready_data(folder, ready(folder, valid=[folder / "absent.csv"]))
    assert "--valid" in str(caught.value.fix)
    with pytest.raises(ConfigError, match="splits the rows itself"):
        ready_data(folder, ready(folder), protocol="random-8-1-1")
    with pytest.raises(ConfigError, match="--limit"):
        ready_data(folder, ready(folder), limit=10)
    with pytest.raises(ConfigError, match="which files are train"):
        prepare("frappe_x1", [folder / "train.csv"], folder / "data")


def test_the_command_takes_one_way_or_the_other(folder: Path, capsys):
    words = ["prepare", str(folder / "r.yaml"), "--out", str(folder / "data"), "--quiet"]
    parts = [word for split in SIZES for word in (f"--{split}", str(folder / f"{split}.csv"))]
    assert main(words) == 2
    assert main([*words, *parts, "--raw", str(folder / "train.csv")]) == 2
    assert capsys.readouterr().err.count("either with --raw") == 2
    assert main([*words, *parts]) == 0
    assert PreparedData.open(folder / "data").manifest["rows"] == SIZES
