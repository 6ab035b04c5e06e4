"""Write a raw file whose truth is known.

    summary = generate("criteo", rows=1_000_000, seed=7, out=Path("train.txt"))
    summary.bayes_logloss

The bytes depend on (layout, rows, seed, strength) alone. Work is cut into chunks; each has its own
random stream, keyed by the seed and the chunk's number, so threads may make them in any order.
"""

from __future__ import annotations

import difflib
import json
import math
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recnas.data.synthetic.avazu import Avazu
from recnas.data.synthetic.criteo import Criteo
from recnas.data.synthetic.files import WholeFiles, check_target, compressor_for, truth_path
from recnas.data.synthetic.hashing import key_of
from recnas.data.synthetic.kdd12 import Kdd12
from recnas.data.synthetic.layout import Layout
from recnas.data.synthetic.planted import ClickModel, sigmoid
from recnas.data.synthetic.truth import ChunkSums, Tally, measure
from recnas.errors import ConfigError
from recnas.machine import available_cores

LAYOUTS: dict[str, Callable[[], Layout]] = {"criteo": Criteo, "avazu": Avazu, "kdd12": Kdd12}

CHUNK_ROWS = 16_384  # part of the format: another size would give other rows for the same seed
_CALIBRATION_ROWS = 1 << 16
_MOST_THREADS = 8  # beyond this the one writer is the limit, and every chunk in flight costs memory
_ROWS_STREAM, _CALIBRATION_STREAM = 0, 1


@dataclass(frozen=True)
class SynthSummary:
    """What was written and what is known about it; the log losses are per row, in nats."""

    layout: str
    rows: int
    seed: int
    strength: float
    path: Path
    truth_path: Path
    probability_path: Path | None
    side_paths: tuple[Path, ...]
    bytes_written: int
    click_rate: float
    constant_rate_logloss: float
    bayes_logloss: float
    bayes_logloss_realised: float
    recalibrated_oracle_logloss: dict[str, float]
    variance_share: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able: paths become text."""
        data = asdict(self)
        for name in ("path", "truth_path", "probability_path"):
            data[name] = None if data[name] is None else str(data[name])
        data["side_paths"] = [str(path) for path in self.side_paths]
        return data


@dataclass(frozen=True)
class _Chunk:
    packed: bytes
    sums: ChunkSums
    chance: npt.NDArray[np.float32]
    side_keys: npt.NDArray[np.integer] | None


def _stream(layout: str, seed: int, stream: int, chunk: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([key_of(layout), seed, stream, chunk])))


@lru_cache(maxsize=8)
def click_model(layout: str, seed: int, strength: float = 1.0) -> ClickModel:
    """The truth behind every file of this (layout, seed, strength), whatever its length."""
    _check(layout, 1, seed, strength, None)
    shape = LAYOUTS[layout]()
    rng = _stream(layout, seed, _CALIBRATION_STREAM, 0)
    sample = shape.draw(rng, rng.random(_CALIBRATION_ROWS)).inputs
    return ClickModel.calibrated(layout, seed, strength, shape.planted(), shape.laws(), sample, shape.click_rate)


def generate(
    layout: str,
    rows: int,
    seed: int,
    out: Path,
    *,
    strength: float = 1.0,
    write_probability: bool = False,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> SynthSummary:
    """Write `out`, `out`.truth.json and what the format keeps beside it.

    Args:
        layout: criteo, avazu or kdd12.
        rows: rows to write. Criteo and KDD12 files of one seed are prefixes of each other.
        seed: any number from 0 up.
        out: the raw file; a name ending in .gz or .zst is compressed.
        strength: scale of every planted term; 0 makes clicks a coin toss at the base rate.
        write_probability: also write the true click chance per row to `out`.p.npy (float32).
        threads: how many chunks are made at once; all processors by default.
        progress: called with the number of rows written so far, after every chunk.

    Raises:
        ConfigError: an argument is out of range or the layout is unknown; all faults at once.
        DataError: the file cannot be written. Nothing is left behind.
    """
    _check(layout, rows, seed, strength, threads)
    out = Path(out)
    shape = LAYOUTS[layout]()
    check_target(out, rows * shape.bytes_per_row)
    model = click_model(layout, seed, strength)
    tally, side = Tally(), shape.side_file()
    truth_file = truth_path(out)
    probability_path = Path(f"{out}.p.npy") if write_probability else None
    side_paths: tuple[Path, ...] = () if side is None else (out.parent / side.name,)
    if out in side_paths:
        raise ConfigError(f"{out.name} is the name of the side file of this layout.", "--out training.txt")
    pack = compressor_for(out)
    threads = threads or min(available_cores(), _MOST_THREADS)

    with WholeFiles() as files:
        main = files.open(out)
        chances = None if probability_path is None else files.open(probability_path)
        if chances is not None:
            shape_of_array = {"descr": "<f4", "fortran_order": False, "shape": (rows,)}
            np.lib.format.write_array_header_1_0(chances, shape_of_array)
        if shape.header:
            main.write(pack(shape.header))
        for chunk in _chunks(shape, model, rows, seed, pack, threads):
            main.write(chunk.packed)
            tally.add(chunk.sums)
            if chances is not None:
                chances.write(chunk.chance.tobytes())
            if side is not None and chunk.side_keys is not None:
                side.note(chunk.side_keys)
            if progress is not None:
                progress(tally.rows)
        if side is not None:
            files.open(side_paths[0]).writelines(side.blocks())
        measured = tally.report(model)
        truth = {"layout": layout, "rows": rows, "seed": seed, "strength": strength, **measured}
        files.open(truth_file).write(json.dumps(truth, indent=1).encode() + b"\n")
        size = main.tell()

    kept = ("click_rate", "constant_rate_logloss", "bayes_logloss", "bayes_logloss_realised",
            "recalibrated_oracle_logloss", "variance_share")  # fmt: skip
    return SynthSummary(
        layout, rows, seed, strength, out, truth_file, probability_path, side_paths, size,
        **{name: measured[name] for name in kept},
    )  # fmt: skip


def _chunks(
    layout: Layout, model: ClickModel, rows: int, seed: int, pack: Callable[[bytes], bytes], threads: int
) -> Iterator[_Chunk]:
    """Chunks in row order. At most two per thread are in flight, which bounds the memory."""
    starts = iter(range(0, rows, CHUNK_ROWS))
    waiting: deque[Future[_Chunk]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="synth") as pool:
        try:
            while True:
                while len(waiting) < 2 * threads and (start := next(starts, None)) is not None:
                    waiting.append(pool.submit(_make_chunk, layout, model, rows, seed, start, pack))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _make_chunk(
    layout: Layout, model: ClickModel, rows: int, seed: int, start: int, pack: Callable[[bytes], bytes]
) -> _Chunk:
    """Draw a full chunk even when fewer rows are wanted: a short file stays a prefix of a long one."""
    rng = _stream(layout.name, seed, _ROWS_STREAM, start // CHUNK_ROWS)
    wanted = min(CHUNK_ROWS, rows - start)
    when = np.minimum((np.arange(start, start + CHUNK_ROWS) + 0.5) / rows, 1.0)
    drawn = layout.draw(rng, when)
    parts = model.parts(drawn.inputs)
    logits = np.full(CHUNK_ROWS, model.intercept)
    for part in parts.values():
        logits += part
    chance = np.clip(sigmoid(logits), 1e-12, 1 - 1e-12)  # a strength of 10 saturates
    clicked = rng.random(CHUNK_ROWS) < chance
    lines = layout.render(drawn, clicked, rng)
    keys = layout.side_keys(drawn)
    if wanted < CHUNK_ROWS:
        lines = b"".join(lines.splitlines(keepends=True)[:wanted])
        parts = {group: values[:wanted] for group, values in parts.items()}
        chance, clicked = chance[:wanted], clicked[:wanted]
        keys = None if keys is None else keys[:wanted]
    return _Chunk(pack(lines), measure(parts, chance, clicked), chance.astype("<f4"), keys)


def _check(layout: str, rows: int, seed: int, strength: float, threads: int | None) -> None:
    faults = []
    if layout not in LAYOUTS:
        near = difflib.get_close_matches(str(layout).lower(), LAYOUTS, n=1, cutoff=0.4)
        guess = f"; did you mean {near[0]}?" if near else "."
        faults.append(f"There is no layout {layout!r}{guess}")
    if rows < 1:
        faults.append(f"--rows must be at least 1, got {rows}.")
    if not 0 <= seed < 2**63:
        faults.append(f"--seed must be between 0 and 2^63 - 1, got {seed}.")
    if not (math.isfinite(strength) and 0 <= strength <= 10):
        faults.append(f"--strength must be between 0 (no signal) and 10, got {strength}.")
    if threads is not None and threads < 1:
        faults.append(f"threads must be at least 1, got {threads}.")
    if faults:
        example = f"recnas synth {'|'.join(LAYOUTS)} --rows 100000 --seed 1 --out train.txt"
        raise ConfigError("\n".join(faults), example)
