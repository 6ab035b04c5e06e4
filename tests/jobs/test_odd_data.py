"""Data sets that are odd but allowed go all the way: prepare, search, compare, report, watch.

No figure is checked here; what is checked is that nobody meets a traceback, and that what is said is true of
data on which little can be said.
"""

from __future__ import annotations

import io
import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from recnas.cli.main import main
from recnas.config import check_settings
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.engines.execution import Execution
from recnas.jobs.compare import compare
from recnas.jobs.search import search
from recnas.progress import Progress
from recnas.report.content import make_report
from recnas.report.state import describe, state_of
from recnas.report.write import write_report
from recnas.tasks.settings import CtrSearchConfig
from recnas.train.settings import TrainSettings


@dataclass(frozen=True)
class Odd:
    """A generated text file: how many columns of each kind, how many rows, how often clicked."""

    dense: int = 2
    sparse: int = 2
    rows: int = 600
    clicks: float = 0.3
    constant: bool = False

    def write(self, folder: Path) -> Path:
        rng = random.Random(7)
        names = [f"d{i}" for i in range(self.dense)] + [f"s{i}" for i in range(self.sparse)]
        lines = [",".join(["label", *names])]
        for _ in range(self.rows):
            dense = ["1" if self.constant else f"{rng.random():.3f}" for _ in range(self.dense)]
            sparse = ["x" if self.constant else f"v{rng.randrange(5)}" for _ in range(self.sparse)]
            lines.append(",".join([str(int(rng.random() < self.clicks)), *dense, *sparse]))
        folder.mkdir()
        (folder / "log.csv").write_text("\n".join(lines) + "\n")
        return folder / "log.csv"

    def recipe(self, folder: Path) -> Path:
        dense = [f"d{i}" for i in range(self.dense)]
        sparse = [f"s{i}" for i in range(self.sparse)]
        recipe = {
            "name": "odd", "title": "odd", "format": "text", "separator": ",", "quote": True, "header": True,
            "label": {"column": "label"}, "min_count": 1, "protocol": "random-8-1-1",
            "dense": [{"columns": dense, "transform": "none", "fill": 0}] if dense else [],
            "sparse": [{"columns": sparse, "kind": "string"}] if sparse else [],
        }  # fmt: skip
        (folder / "recipe.yaml").write_text(json.dumps(recipe))  # JSON is YAML
        return folder / "recipe.yaml"


ZOO = {
    "no-dense": Odd(dense=0),
    "one-sparse": Odd(sparse=1),
    "no-sparse": Odd(sparse=0),
    "two-test-rows": Odd(rows=24),
    "all-negative": Odd(clicks=0.0),
    "all-clicks": Odd(clicks=1.0),
    "constant": Odd(constant=True),
    "rare-clicks": Odd(rows=3000, clicks=0.005),
}


# Some of the data have a validation split of one class, which cannot say when to stop.
ONE_PASS = {"epochs": 1, "schedule": "cosine", "stop": {"patience": None}}


def laptop(data: Path) -> CtrSearchConfig:
    """configs/synthetic/laptop.yaml, cut down to seconds."""
    proxies = {"sigeo": "max", "jacob_cov": "max", "naswot": "max", "ntk_cond": "min"}
    return check_settings(
        CtrSearchConfig,
        {
            "data": str(data), "space": {"name": "nasrec-small", "blocks": 2}, "warmup": {"data_share": 0.1, "least_steps": 3},
            "score": {"proxies": list(proxies), "batches": 2, "batch_size": 16}, "objectives": proxies, "combine": "vote",
            "search": {"method": "evolution", "population": 3, "generations": 2, "children": 1, "tournament": 2},
            "final": {"candidates": 1, "train": ONE_PASS},
        },
        "the test",
    )  # fmt: skip


@pytest.fixture(scope="module", params=ZOO)
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Prepared data, a search and a comparison of one member of the zoo."""
    odd, folder = ZOO[request.param], tmp_path_factory.mktemp("odd") / request.param
    raw = odd.write(folder)
    data = prepare(str(odd.recipe(folder)), [raw], folder / "data", PrepareOptions())
    said = io.StringIO()
    search(laptop(data.path), folder / "first", Execution(progress=Progress(said, plain_seconds=0)))
    (folder / "progress.txt").write_text(said.getvalue())
    # The others need categorical columns, and say so.
    models = ["lr", "dcn-v2", "sklearn-lr"] if odd.sparse else ["dnn", "sklearn-lr"]
    compare(data, folder / "cmp", [*models, f"{folder / 'first'}:best"], None, TrainSettings(**ONE_PASS), seeds=2)
    return data.path, folder / "first", folder / "cmp"


def test_reports_of_odd_data_are_written(runs: tuple[Path, Path, Path], tmp_path: Path):
    _, first, compared = runs
    for number, paths in enumerate([(first,), (compared,), (first, compared)]):
        for kind in ("html", "md"):
            out = tmp_path / f"report{number}.{kind}"
            written = write_report(paths, out)
            assert written["verdict"]
            assert not re.search(r"\b(nan|inf|None)\b", out.read_text()), out


def test_what_cannot_be_learned_is_not_called_better(runs: tuple[Path, Path, Path]):
    """Of columns or labels that never change nobody can learn more than the click rate."""
    _, first, compared = runs
    if first.parent.name not in ("all-negative", "all-clicks", "constant"):
        return
    board = json.loads((compared / "leaderboard.json").read_text())
    words = {row["verdict"] for row in board["models"]}
    assert words == {"no better than guessing"}, words
    for paths in ((compared,), (first, compared)):
        assert "not better than always predicting the click rate" in make_report(paths).verdict.sentence


def test_progress_of_a_vote_names_who_leads(runs: tuple[Path, Path, Path]):
    notes = [line for line in (runs[1].parent / "progress.txt").read_text().splitlines() if line.startswith("search")]
    notes = [line for line in notes if "  0 candidates" not in line]
    assert notes
    assert all("leads the vote of sigeo, jacob_cov, naswot, ntk_cond" in note for note in notes)
    assert not any("best sigeo" in note for note in notes)


def test_odd_data_can_be_watched(runs: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]):
    _, first, compared = runs
    for run in (first, compared, first / "winner", first / "warmup"):
        assert main(["watch", str(run), "--once"]) == 0
        assert "finished" in capsys.readouterr().out
        assert describe(state_of(run))
