"""Makes `tests/attack/runs`: tiny folders of this version, which later versions must open or refuse by name.

    python -m tests.attack.make_runs tests/attack/runs

Run it when a format is raised, into a folder of a new name beside the old ones, which stay. Weights are left out but of one
training: they would be most of it.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from recnas.runs.checks import with_check
from tests.attack.bench import Bench
from tests.attack.children import Children
from tests.attack.tally import Tally
from tests.attack.tiny import BENCH, COMPARE, RACE_JOB, SEARCH_JOB, TRAIN_JOB, WARMUP

VERSION = "0.1"


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, Children(Path(scratch) / "children", None) as children:
        work = Path(scratch) / "work"
        work.mkdir()
        bench = Bench(work, children, Tally(), random.Random(0))
        folder = target / VERSION
        folder.mkdir(parents=True)
        for job in (TRAIN_JOB, WARMUP, SEARCH_JOB, RACE_JOB, COMPARE, BENCH):
            out = work / job.name.replace(" ", "-")
            bench.must(job.argv(bench.base, out))
            for checkpoint in [path.parent for path in out.rglob("step-*/tensors.safetensors")]:
                shutil.rmtree(checkpoint)
            for lock in out.rglob(".lock"):
                lock.unlink()
            shutil.copytree(out, folder / out.name)
        data = folder / "data"
        shutil.copytree(bench.base.data, data)
        for name in (".lock", ".verified.json"):
            (data / name).unlink(missing_ok=True)
        for manifest in folder.rglob("manifest.json"):
            forget_place(manifest, scratch)


def forget_place(manifest: Path, scratch: str) -> None:
    """Where this was made is nobody's business, and no later machine has such a folder."""
    text = manifest.read_text().replace(scratch, "/made-elsewhere")
    manifest.write_text(json.dumps(with_check(json.loads(text)), indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
