"""Score a list of architectures with any proxies on a warmed supernet; results are kept line by line.

    RUN/frozen/          weights and scoring batches, mapped by the workers
    RUN/scores/ID.jsonl  one line per architecture, in the order of the list; ID stands for the settings

The same command again reads what is there and continues after it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recnas.engines.execution import Execution
from recnas.errors import RunError, SpaceError
from recnas.evaluators.base import Evaluation
from recnas.evaluators.proxy import ProxyEvaluator, freeze
from recnas.evaluators.settings import ScoreSettings
from recnas.files import parse_json, read_text
from recnas.plugins import used_by
from recnas.runs.folder import FolderLock
from recnas.runs.ledger import Ledger
from recnas.runs.records import Scored, read_lines
from recnas.seeds import stream
from recnas.space.base import Space
from recnas.space.nasrec.json import to_dict
from recnas.tasks.archs import named_arch
from recnas.train.warmup import load_warmed


def score_archs(
    run: Path | str,
    archs: Sequence[dict[str, Any]] | int,
    settings: ScoreSettings | None = None,
    how: Execution | None = None,
) -> Iterator[Scored]:
    """Yield one record per architecture, in the order of the list.

    Args:
        run: a warm-up run.
        archs: architectures as dictionaries, or how many to draw.
    """
    settings, how = settings or ScoreSettings(), how or Execution()
    how.check()
    supernet, embeddings, data, config = load_warmed(run)
    space = supernet.space
    described = draw_archs(space, settings.seed, archs) if isinstance(archs, int) else list(archs)
    keys = check_archs(space, described)
    folder = Path(run)
    made_from = {
        "data": data.fingerprint,
        "supernet": supernet.describe(),
        "warmup": config.model_dump(mode="json"),
    }
    frozen = freeze(folder / "frozen", supernet, embeddings, data, settings, made_from)
    warmed = config.warmup.data_share > 0
    work = ProxyEvaluator(str(frozen), config.space, supernet.shape, settings, warmed)
    del supernet, embeddings  # the workers map their own
    with FolderLock(folder / "scores"):
        ledger = Ledger(folder / "scores" / f"{_identity(settings, described)}.jsonl")
        try:
            yield from _scored(ledger, work, list(zip(keys, described)), how)
        finally:
            ledger.close()


def _scored(
    ledger: Ledger, work: ProxyEvaluator, wanted: list[tuple[str, dict[str, Any]]], how: Execution
) -> Iterator[Scored]:
    """What the file holds, then the rest; the same network is scored once."""
    done: list[Scored] = read_lines("scores", ledger.read(), str(ledger.path))
    how.progress.phase("score", len(wanted), "archs")
    known: dict[str, Scored] = {}
    for line, (key, _) in zip(done, wanted):
        if line.key != key:
            raise RunError(
                f"{ledger.path} belongs to another list of architectures.",
                "Remove that file and repeat the command.",
            )
        known.setdefault(key, line)
        how.progress.advance(1)
        yield line
    rest = wanted[len(done) :]
    fresh = {key: arch for key, arch in reversed(rest) if key not in known}
    fresh = {key: fresh[key] for key, _ in rest if key in fresh}  # in the order of the list
    with how.open(work) as engine:
        results = engine.map(fresh.values())
        for key, arch in rest:
            if key not in known:
                known[key] = scored_line(key, arch, next(results))
            line = known[key].model_copy(update={"arch": arch})
            ledger.append(line.to_json())
            how.progress.advance(1)
            yield line
    how.progress.end()


def scored_line(key: str, arch: dict[str, Any], evaluation: Evaluation, text: str | None = None) -> Scored:
    return Scored(
        key=key,
        arch=arch,
        text=text,
        scores=dict(evaluation.scores),
        failed=evaluation.failed,
        facts=dict(evaluation.extras),
        seconds=evaluation.seconds,
    )


def draw_archs(space: Space[Any], seed: int, n: int) -> list[dict[str, Any]]:
    """`n` architectures; the list of a larger `n` begins with that of a smaller one."""
    rng = stream(seed, "scored-architectures")
    return [space.to_dict(space.sample(rng)) for _ in range(n)]


def check_archs(space: Space[Any], described: Sequence[dict[str, Any]]) -> list[str]:
    """The key of every architecture; all that do not fit are named at once, before anything is scored."""
    keys, faults = [], []
    for number, data in enumerate(described, start=1):
        try:
            arch = space.from_dict(data)
            space.validate(arch)
            keys.append(space.key(arch))
        except SpaceError as error:
            faults.append(f"  line {number}: {error.what}")
    if faults:
        shown = "\n".join(faults[:10]) + (f"\n  ... and {len(faults) - 10} more" if len(faults) > 10 else "")
        raise SpaceError(f"{len(faults)} of {len(described)} architectures do not fit {space.name}:\n{shown}")
    return keys


def read_archs(path: Path | str) -> list[dict[str, Any]]:
    """Architectures from JSON lines; a line may hold one itself or carry it as `arch` (a ledger, a score file).

    ARCH.json, RUN:best and RUN:NUMBER stand for one.
    """
    found = []
    if str(path).endswith(".json") or not Path(path).exists():
        return [to_dict(named_arch(str(path)))]
    try:
        lines = read_text(Path(path)).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read: {error}.") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
            if not isinstance(value, dict):
                raise ValueError("not an object")
        except ValueError as error:
            raise RunError(
                f"{path} line {number} is not a JSON object ({error}).", "One architecture per line."
            ) from None
        found.append(value.get("arch", value))
    return found


def _identity(settings: ScoreSettings, described: Sequence[dict[str, Any]]) -> str:
    # The first architecture stands for the list: a longer list of the same beginning continues the file.
    facts = [
        settings.model_dump(mode="json", exclude={"device"}),
        described[:1],
        *([plugins] if (plugins := used_by(settings.proxies)) else []),
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
