"""Score cells of NAS-Bench-201 and other vision spaces with any proxies, before they are compared with accuracies.

    RUN/manifest.json   images, sizes, proxies, seeds
    RUN/ledger.jsonl    one line per network (cells with the same key are one), in order

Resumable, and the same whatever the number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Any

from recnas.engines.execution import Execution
from recnas.evaluators.images import VisionProxyEvaluator
from recnas.jobs.score import scored_line
from recnas.runs.folder import RunDir
from recnas.runs.records import Scored, read_lines
from recnas.seeds import stream
from recnas.tasks.settings import CellScoring


def score_cells(
    archs: Sequence[Any], out: Path | str, settings: CellScoring, how: Execution | None = None
) -> list[Scored]:
    """One record per cell, in order; networks that several cells share are scored once."""
    how = how or Execution()
    how.check()
    run = RunDir.create(out, "scores", settings=settings.model_dump(mode="json"), threads=1)
    space = settings.space.make()
    keys = [space.key(arch) for arch in archs]
    work = VisionProxyEvaluator(settings.space, {}, settings.images, None, settings)
    with run.locked():
        lines = {line.key: line for line in read_lines("scores", run.ledger.read(), str(run.ledger.path))}
        rest = {key: arch for key, arch in zip(keys, archs) if key not in lines}
        how.progress.phase("score cells", len(rest), "networks")
        with how.open(work) as engine:
            described = [space.to_dict(arch) for arch in rest.values()]
            for (key, arch), one, evaluation in zip(rest.items(), described, engine.map(described)):
                lines[key] = scored_line(key, one, evaluation, getattr(arch, "text", None))
                run.ledger.append(lines[key].to_json())
                how.progress.advance(1)
        how.progress.end()
    return [lines[key] for key in keys]


def sample_cells(table: Sized, n: int, seed: int = 0) -> list[int]:
    """Rows of the table, drawn without replacement; a larger `n` begins with the rows of a smaller one."""
    return stream(seed, "sampled-cells").permutation(len(table))[:n].tolist()
