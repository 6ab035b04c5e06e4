"""Rolling splits: every origin knows only its own past, and its windows are where arithmetic says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from recnas.cli.main import main
from recnas.data.prepare import rolling as rolling_module
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepare.rolling import prepare_any
from recnas.data.prepared import PreparedData
from recnas.data.rolling import RollingData
from recnas.errors import ConfigError, DataError
from recnas.trust.verify import verify

RECIPE = """
name: log
separator: ","
header: true
label: {column: click}
dense: [{columns: [number], transform: none, standardise: false}]
sparse: [{columns: [user]}]
time: {column: at, format: epoch-seconds, zone: "+00:00"}
protocol: rolling
rolling: {origins: 3, window: 0.1}
"""
ROWS = 1000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Rows in no order; the user of a row says when it happened, so a vocabulary tells which rows it was made of."""
    rng = np.random.default_rng(0)
    number = rng.permutation(ROWS)
    rows = pd.DataFrame({"click": rng.integers(0, 2, ROWS), "number": number, "user": [f"u{n // 10}" for n in number]})
    rows["at"] = 1_700_000_000 + 60 * number
    rows.to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "r.yaml").write_text(RECIPE)
    return tmp_path


def numbers(data: PreparedData, split: str) -> set[int]:
    return {int(n) for n in np.asarray(data.array(split, "dense"))[:, 0]}


def test_windows_vocabulary_and_statistics_of_every_origin(log: Path):
    made = prepare_any(str(log / "r.yaml"), [log / "log.csv"], log / "d")
    assert isinstance(made, RollingData)
    assert [origin.path.name for origin in made.origins] == ["origin-1", "origin-2", "origin-3"]
    for origin, end in zip(made.origins, (800, 900, 1000)):
        assert numbers(origin, "train") == set(range(end - 200))
        assert numbers(origin, "valid") == set(range(end - 200, end - 100))
        assert numbers(origin, "test") == set(range(end - 100, end))
        users = pq.read_table(origin.path / "vocab" / "user.parquet").column("value").to_pylist()
        assert set(users) == {f"u{n}" for n in range((end - 200) // 10)}
        (field,) = origin.schema.dense
        assert field.mean == pytest.approx(np.arange(end - 200).mean())
        assert origin.manifest["later"] == ROWS - end
        assert (np.asarray(origin.array("test", "ids")) == 0).all()  # users that were still to come
        assert "left_out" not in origin.manifest
    again = RollingData.find(log / "d")
    assert again is not None
    assert again.fingerprint == made.fingerprint
    assert verify(log / "d").well


def test_one_origin_is_what_the_rows_up_to_then_would_have_given(log: Path):
    rows = pd.read_csv(log / "log.csv")
    rows[rows.number < 800].to_csv(log / "then.csv", index=False)
    first = prepare(str(log / "r.yaml"), [log / "log.csv"], log / "one", PrepareOptions(origin=1))
    then = PrepareOptions(protocol="time-ratio", shares=(0.75, 0.125, 0.125))
    assert first.fingerprint == prepare(str(log / "r.yaml"), [log / "then.csv"], log / "then", then).fingerprint


def test_equal_times_stay_together(log: Path):
    rows = pd.read_csv(log / "log.csv")
    rows["at"] = 1_700_000_000 + rows.number // 70  # 70 rows at each time
    rows.to_csv(log / "log.csv", index=False)
    made = prepare_any(str(log / "r.yaml"), [log / "log.csv"], log / "d", PrepareOptions(origins=2))
    for origin in made.origins:
        splits = [numbers(origin, split) for split in ("train", "valid", "test")]
        cuts = [max(one) + 1 for one in splits]
        assert all(cut % 70 == 0 or cut == ROWS for cut in cuts)
        assert set().union(*splits) == set(range(cuts[2]))
        assert sum(map(len, splits)) == cuts[2]


def test_row_order_as_time(log: Path):
    pd.read_csv(log / "log.csv").sort_values("number").to_csv(log / "log.csv", index=False)
    text = RECIPE.replace('time: {column: at, format: epoch-seconds, zone: "+00:00"}', "time: {days: 10}")
    (log / "r.yaml").write_text(text)
    made = prepare_any(str(log / "r.yaml"), [log / "log.csv"], log / "d", PrepareOptions(origins=2, window=0.2))
    assert [numbers(origin, "test") for origin in made.origins] == [set(range(600, 800)), set(range(800, 1000))]


def test_negatives_are_counted_apart_from_later_rows(log: Path):
    (log / "r.yaml").write_text(RECIPE + "negatives: 0.5\n")
    origin = prepare(str(log / "r.yaml"), [log / "log.csv"], log / "d", PrepareOptions(origin=1))
    rows = pd.read_csv(log / "log.csv")
    train = rows[rows.number < 600]
    assert origin.manifest["later"] == 200
    assert origin.manifest["left_out"] == 600 - origin.rows("train")
    kept = np.asarray(origin.array("train", "label"))
    assert kept.sum() == train.click.sum()
    assert origin.rows("valid") == origin.rows("test") == 100


def test_killed_between_two_origins_and_continued(log: Path, monkeypatch):
    whole = prepare_any(str(log / "r.yaml"), [log / "log.csv"], log / "whole")
    real = rolling_module.prepare

    def dies(recipe, raw, out, options, **how):
        if options.origin == 3:
            raise KeyboardInterrupt
        return real(recipe, raw, out, options, **how)

    monkeypatch.setattr(rolling_module, "prepare", dies)
    with pytest.raises(KeyboardInterrupt):
        prepare_any(str(log / "r.yaml"), [log / "log.csv"], log / "d")
    assert RollingData.find(log / "d") is None
    before = (log / "d" / "origin-1" / "manifest.json").stat().st_mtime_ns
    monkeypatch.undo()
    again = prepare_any(str(log / "r.yaml"), [log / "log.csv"], log / "d")
    assert again.fingerprint == whole.fingerprint
    assert (log / "d" / "origin-1" / "manifest.json").stat().st_mtime_ns == before


def test_refusals(log: Path, capsys):
    recipe, raw = str(log / "r.yaml"), [log / "log.csv"]
    prepare_any(recipe, raw, log / "d")
    with pytest.raises(DataError, match="holds 3 origins of a rolling split") as error:
        PreparedData.open(log / "d")
    assert "origin-3" in error.value.fix
    with pytest.raises(DataError, match="origins was 3, now 2"):
        prepare_any(recipe, raw, log / "d", PrepareOptions(origins=2))
    with pytest.raises(DataError, match=r"window was 0.1, now 0.05"):
        prepare_any(recipe, raw, log / "d", PrepareOptions(window=0.05))
    with pytest.raises(ConfigError, match="leave the first one no training rows"):
        prepare_any(recipe, raw, log / "e", PrepareOptions(origins=9))
    with pytest.raises(ConfigError, match="--origins and --window go with --protocol rolling"):
        prepare_any(recipe, raw, log / "e", PrepareOptions(protocol="time-last-day", origins=2))
    with pytest.raises(ConfigError, match="reads the rows once per origin"):
        prepare_any(recipe, ["-"], log / "e")
    (log / "n.yaml").write_text("\n".join(line for line in RECIPE.splitlines() if not line.startswith("time")))
    with pytest.raises(ConfigError, match="does not say when its rows happened"):
        prepare_any(str(log / "n.yaml"), raw, log / "e")
    rows = pd.read_csv(log / "log.csv")
    rows["at"] = 1_700_000_000 + rows.number // 500
    rows.to_csv(log / "two.csv", index=False)
    with pytest.raises(DataError, match="2 different times, too few"):
        prepare_any(recipe, [log / "two.csv"], log / "e")
    assert not (log / "e" / "manifest.json").exists()
    assert main(["train", "x.json", "--data", str(log / "d"), "--out", str(log / "t")]) == 2
    capsys.readouterr()
    assert main(["prepare", recipe, "--raw", str(raw[0]), "--out", str(log / "d"), "--quiet"]) == 0
    assert "100 rows are later than this origin's test window" in capsys.readouterr().out
