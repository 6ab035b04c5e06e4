"""Splits with shares, of groups and by any column of times."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepare.split import RowsOfChunk, assign_split, time_cuts
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError, DataError

RECIPE = """
name: log
separator: ","
header: true
label: {column: y}
dense: [{columns: [number], transform: none, standardise: false}]
sparse: [{columns: [item]}, {columns: [at], kind: time, derive: {hour: hour}}]
time: {column: at, format: epoch-seconds, zone: "+01:00"}
group: user
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(3)
    lines = ["y,number,item,at,user"]
    for i in range(2000):
        user = f"u{rng.integers(300)}" if i % 10 else ""
        lines.append(
            f"{i % 2},{i},i{rng.integers(20)},{1_709_251_200 + int(rng.integers(5 * 86400)) // 600 * 600},{user}"
        )
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    (folder / "r.yaml").write_text(RECIPE)
    return folder


def split_of_rows(data: PreparedData) -> dict[int, str]:
    return {int(n): split for split in ("train", "valid", "test") for n in data.array(split, "dense")[:, 0]}


def make(log: Path, out: Path, protocol: str, shares=None) -> PreparedData:
    options = PrepareOptions(protocol=protocol, shares=shares, parquet=False)
    return prepare(str(log / "r.yaml"), [log / "log.csv"], out, options, threads=1)


def raw(log: Path, column: int) -> list[str]:
    return [line.split(",")[column] for line in (log / "log.csv").read_text().splitlines()[1:]]


def test_no_user_is_in_two_splits_and_rows_without_one_are_spread(log: Path, tmp_path: Path):
    data = make(log, tmp_path / "d", "group", (0.6, 0.2, 0.2))
    splits: dict[str, set[str]] = {}
    for number, split in split_of_rows(data).items():
        splits.setdefault(raw(log, 4)[number], set()).add(split)
    nobody = splits.pop("")
    assert all(len(found) == 1 for found in splits.values())
    assert len(splits) > 250
    assert nobody == {"train", "valid", "test"}
    for split, share in zip(("train", "valid", "test"), (0.6, 0.2, 0.2)):
        assert abs(data.rows(split) / 2000 - share) < 0.06
    assert make(log, tmp_path / "e", "group").fingerprint != data.fingerprint


def test_the_last_rows_by_time(log: Path, tmp_path: Path):
    data = make(log, tmp_path / "d", "time-ratio", (0.7, 0.2, 0.1))
    times = np.array(raw(log, 3), np.int64)
    of = {
        split: times[[n for n, s in split_of_rows(data).items() if s == split]] for split in ("train", "valid", "test")
    }
    assert of["train"].max() < of["valid"].min()
    assert of["valid"].max() < of["test"].min()
    for split, share in zip(of, (0.7, 0.2, 0.1)):
        assert abs(len(of[split]) / 2000 - share) < 0.01


def test_the_last_day_on_the_clock_of_the_recipe(log: Path, tmp_path: Path):
    data = make(log, tmp_path / "d", "time-last-day")
    days = (np.array(raw(log, 3), np.int64) + 3600) // 86400
    for number, split in split_of_rows(data).items():
        back = int(days.max() - days[number])
        assert split == ("test" if back == 0 else "valid" if back == 1 else "train")


def rows(n: int, **more) -> RowsOfChunk:
    return RowsOfChunk(0, n, np.arange(n), np.zeros(n, np.uint8), None, **more)


def test_shares_of_8_1_1_are_the_protocol_of_that_name():
    chunk = rows(50_000)
    (one,), (two,) = (assign_split(name, 7, [chunk], None, None) for name in ("random", "random-8-1-1"))
    np.testing.assert_array_equal(one, two)


def test_rows_in_time_order_are_cut_by_their_numbers():
    (split,) = assign_split("time-ratio", 0, [rows(1000)], 10, None, shares=(0.5, 0.3, 0.2))
    assert np.bincount(split).tolist() == [500, 300, 200]
    assert (np.diff(split.astype(int)) >= 0).all()


def test_cuts_of_time_leave_something_in_every_part():
    for counts in ([1, 1, 98], [98, 1, 1], [1, 98, 1], [1, 1, 1, 97]):
        valid, test = time_cuts((np.arange(len(counts)), np.array(counts)), (0.8, 0.1, 0.1))
        assert 0 < valid < test < len(counts)
    with pytest.raises(DataError, match="at least 3 different times"):
        time_cuts((np.array([5, 6]), np.array([9, 9])), (0.8, 0.1, 0.1))


def test_shares_are_cut_exactly():
    """A hash on the cut itself: the first of the upper part."""
    from recnas.data.prepare.split import by_hash

    cut = -(-Fraction(7, 10) * 2**32 // 1)
    hashes = np.array([int(cut) - 1, int(cut)], np.uint64) << np.uint64(32)
    assert by_hash(hashes, (0.7, 0.2, 0.1)).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        ("", {"protocol": "random-8-1-1", "shares": (0.7, 0.2, 0.1)}, "--shares goes with"),
        ("", {"protocol": "random", "shares": (0.7, 0.2, 0.2)}, "add up to 1"),
        ("shares: [1.0, 0.0, 0.0]", {}, "above 0"),
        ("group: nobody", {"protocol": "group"}, "no column nobody"),
        ("group: null", {"protocol": "group"}, "which rows belong together"),
        ("time: {column: at, format: epoch-seconds}", {}, "on which clock days begin"),
        ("time: {column: at, format: epoch-seconds, zone: CET}", {}, "an offset from Greenwich"),
        ("time: {days: 4}", {}, "need a format and a zone"),
        ("time: {column: at, format: epoch-milliseconds, zone: '+00:00'}", {}, "epoch-seconds"),
        ("time: {column: at, format: iso, zone: '+00:00'}", {}, "line 2, column at: not a time"),
        ("time: {column: at}\nsparse: [{columns: [item]}]", {}, "format: epoch-seconds"),
    ],
)  # fmt: skip
def test_mistakes_are_told(log: Path, tmp_path: Path, change: str, options: dict, says: str):
    key = change.partition(":")[0]
    kept = [line for line in RECIPE.splitlines() if not (key and line.startswith(f"{key}:"))]
    if "\nsparse" in change:
        kept = [line for line in kept if not line.startswith("sparse")]
    (tmp_path / "r.yaml").write_text("\n".join([*kept, change]))
    with pytest.raises((ConfigError, DataError)) as caught:
        prepare(str(tmp_path / "r.yaml"), [log / "log.csv"], tmp_path / "d", PrepareOptions(**options))
    assert says in str(caught.value)
    assert not (tmp_path / "d").exists()
