"""Score a list of architectures with any proxies on a warmed supernet; results are kept line by line.

    RUN/frozen/          weights and scoring batches, mapped by the workers
    RUN/scores/ID.jsonl  one line per architecture, in the order of the list; ID stands for the settings

The same command again reads what is there and goes on behind it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recnas.engines.base import EngineChoice, open_engine
from recnas.errors import RunError, SpaceError
from recnas.jobs.find_arch import named_arch
from recnas.jobs.scoring import ScoreSettings, ScoreWork, freeze
from recnas.jobs.warmup import load_warmed
from recnas.progress import Progress
from recnas.run import FolderLock, Ledger
from recnas.space.base import Space
from recnas.space.nasrec_json import to_dict

DRAW_STREAM = 4  # keeps drawn architectures apart from every other draw of a seed


def score_archs(
    run: Path | str,
    archs: Sequence[dict[str, Any]] | int,
    settings: ScoreSettings | None = None,
    workers: int = 1,
    progress: Progress | None = None,
    engine: EngineChoice | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield one result per architecture: `key`, `arch`, `scores`, `seconds`.

    Args:
        run: a warm-up run.
        archs: architectures as dictionaries, or how many to draw.
    """
    settings = settings or ScoreSettings()
    progress = progress or Progress(quiet=True)
    where = engine or EngineChoice()
    where.check()
    supernet, embeddings, data, config = load_warmed(run)
    space = supernet.space
    described = draw_archs(space, settings.seed, archs) if isinstance(archs, int) else list(archs)
    keys = check_archs(space, described)
    folder = Path(run)
    made_from = {
        "data": data.fingerprint,
        "supernet": supernet.describe(),
        "warmup": config.model_dump(mode="json", exclude={"data": True, "train": {"checkpoint_seconds"}}),
    }
    frozen = freeze(folder / "frozen", supernet, embeddings, data, settings, made_from)
    work = ScoreWork(str(frozen), config.space, supernet.shape, settings, warmed=config.warmup.share > 0)
    del supernet, embeddings  # the workers map their own
    with FolderLock(folder / "scores"):
        ledger = Ledger(folder / "scores" / f"{_identity(settings, described)}.jsonl")
        done = ledger.read()
        progress.phase("score", len(described), "archs")
        known: dict[str, dict[str, Any]] = {}
        for event, key in zip(done, keys):
            if event["key"] != key:
                raise RunError(
                    f"{ledger.path} belongs to another list of architectures.",
                    "Remove that file and repeat the command.",
                )
            known.setdefault(key, event)
            progress.advance(1)
            yield event
        rest = list(zip(described, keys))[len(done) :]
        fresh: dict[str, dict[str, Any]] = {}  # by key: the same network is scored once
        for arch, key in rest:
            if key not in known:
                fresh.setdefault(key, arch)
        with open_engine(work, workers, where.kind, where.address) as opened:
            results = opened.map(fresh.values())
            for arch, key in rest:
                if key not in known:
                    known[key] = next(results)
                event = {
                    "key": key,
                    "arch": arch,
                    **{name: value for name, value in known[key].items() if name not in ("key", "arch")},
                }
                ledger.append(event)
                progress.advance(1)
                yield event
        ledger.close()
        progress.end()


def draw_archs(space: Space[Any], seed: int, n: int) -> list[dict[str, Any]]:
    """`n` architectures; the list of a larger `n` begins with that of a smaller one."""
    rng = np.random.default_rng([seed, DRAW_STREAM])
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
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}.") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
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
    facts = [settings.model_dump(mode="json"), described[:1]]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
