"""Generated files: same bytes every time, whole or absent, and readable errors."""

from __future__ import annotations

import errno
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from recnas.data.synthetic import CHUNK_ROWS, LAYOUTS, files, generate
from recnas.errors import ConfigError, DataError

ROWS = CHUNK_ROWS + 1000  # one full chunk and a piece of the next


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bytes_do_not_depend_on_the_run_or_the_threads(layout: str, tmp_path: Path) -> None:
    written = []
    for threads in (1, 1, 3):
        folder = tmp_path / f"run{len(written)}"
        folder.mkdir()
        generate(layout, 3 * ROWS, 5, folder / "raw.txt", threads=threads, write_probability=True)
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert written[0] == written[1] == written[2]
    expected = {"raw.txt", "raw.txt.truth.json", "raw.txt.p.npy"}
    assert set(written[0]) == expected | ({"userid_profile.txt"} if layout == "kdd12" else set())


@pytest.mark.parametrize("layout", ["criteo", "kdd12"])
def test_a_short_file_is_a_prefix_of_a_long_one(layout: str, tmp_path: Path) -> None:
    generate(layout, 100, 5, tmp_path / "short.txt")
    generate(layout, ROWS, 5, tmp_path / "long.txt")
    short, long = (tmp_path / "short.txt").read_bytes(), (tmp_path / "long.txt").read_bytes()
    assert short.count(b"\n") == 100
    assert long.startswith(short)


def test_seed_and_strength_change_the_rows(tmp_path: Path) -> None:
    texts = []
    for seed, strength in ((1, 1.0), (2, 1.0), (1, 0.5)):
        generate("criteo", 500, seed, tmp_path / "raw.txt", strength=strength)
        texts.append((tmp_path / "raw.txt").read_text())
    assert len(set(texts)) == 3
    # Strength moves clicks alone: all other cells come from the seed.
    assert [line[1:] for line in texts[0].splitlines()] == [line[1:] for line in texts[2].splitlines()]


@pytest.mark.parametrize("layout", ["criteo", "avazu"])
@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_compressed_output_holds_the_same_text(layout: str, ending: str, tmp_path: Path) -> None:
    plain, packed = tmp_path / "raw.csv", tmp_path / f"raw.csv{ending}"
    generate(layout, ROWS, 5, plain)
    summary = generate(layout, ROWS, 5, packed)
    assert summary.bytes_written == packed.stat().st_size < plain.stat().st_size
    if ending == ".gz":
        assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    with pa.input_stream(str(packed)) as stream:  # a reader that has to cross member boundaries
        assert stream.read() == plain.read_bytes()


def test_progress_and_summary(tmp_path: Path) -> None:
    seen: list[int] = []
    summary = generate("kdd12", 2 * CHUNK_ROWS + 7, 5, tmp_path / "training.txt", progress=seen.append)
    assert seen == [CHUNK_ROWS, 2 * CHUNK_ROWS, 2 * CHUNK_ROWS + 7]
    assert summary.side_paths == (tmp_path / "userid_profile.txt",)
    again = json.loads(json.dumps(summary.to_dict()))
    truth = json.loads(summary.truth_path.read_text())
    assert again["bayes_logloss"] == truth["bayes_logloss"]
    assert truth["rows"] == 2 * CHUNK_ROWS + 7


def test_one_row(tmp_path: Path) -> None:
    for layout in LAYOUTS:
        summary = generate(layout, 1, 0, tmp_path / "one.txt", write_probability=True)
        assert np.load(tmp_path / "one.txt.p.npy").shape == (1,)
        assert summary.rows == 1


def test_no_signal_at_strength_zero_and_no_nan_at_ten(tmp_path: Path) -> None:
    flat = generate("criteo", ROWS, 5, tmp_path / "flat.txt", strength=0.0)
    assert flat.bayes_logloss == pytest.approx(0.5687, abs=2e-3)
    assert flat.recalibrated_oracle_logloss["linear"] == pytest.approx(flat.constant_rate_logloss, abs=1e-6)
    steep = generate("criteo", ROWS, 5, tmp_path / "steep.txt", strength=10.0)
    assert 0 < steep.bayes_logloss < 0.15


def test_all_faults_of_the_arguments_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        generate("critoe", 0, -1, tmp_path / "x", strength=float("nan"), threads=0)
    message = str(caught.value)
    for part in ("did you mean criteo", "--rows", "--seed", "--strength", "threads", "recnas synth"):
        assert part in message


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mkdir -p"):
        generate("criteo", 10, 1, tmp_path / "absent" / "x.txt")
    with pytest.raises(DataError, match="is a folder"):
        generate("criteo", 10, 1, tmp_path)
    with pytest.raises(DataError, match="GB free"):
        generate("criteo", 10**13, 1, tmp_path / "x.txt")
    with pytest.raises(ConfigError, match="side file"):
        generate("kdd12", 10, 1, tmp_path / "userid_profile.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "training.txt"
    out.write_text("old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(DataError, match="disk filled up"):
        generate("kdd12", 100, 1, out, write_probability=True)
    assert [path.name for path in tmp_path.iterdir()] == ["training.txt"]
    assert out.read_text() == "old"


def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate("criteo", 5 * CHUNK_ROWS, 1, tmp_path / "x.txt", progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_profiles_cover_exactly_the_known_users(tmp_path: Path) -> None:
    generate("kdd12", ROWS, 5, tmp_path / "training.txt")
    users = pd.read_csv(tmp_path / "training.txt", sep="\t", header=None, usecols=[11])[11]
    profiles = pd.read_csv(tmp_path / "userid_profile.txt", sep="\t", header=None, names=["user", "gender", "age"])
    assert profiles.user.is_monotonic_increasing
    assert set(profiles.user) == set(users) - {0}
    assert set(profiles.gender) == {0, 1, 2}
    assert set(profiles.age) == {1, 2, 3, 4, 5, 6}
