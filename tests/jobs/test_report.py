"""Whole reports: finished, stopped, tiny, several runs, large; as HTML and as Markdown; without torch."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from recnas.cli.main import main
from recnas.report.write import write_report
from recnas.runs.read import read_run
from recnas.runs.records import Candidate, PhaseDone, SeedTraining
from recnas.runs.results import WarmupResult
from tests.unit.report.small_runs import (
    as_lines,
    candidate,
    many_candidates,
    train_result,
    trained,
    write_compare,
    write_data,
    write_run,
    write_search,
)


class Page(HTMLParser):
    """Checks that tags close in order, and collects what a reader without script sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.links += [value for name, value in found.items() if name in ("src", "href") and value]
        self.ids += [found["id"]] if "id" in found else []
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)


def report(tmp_path: Path, *paths, name: str = "report.html") -> tuple[str, dict]:
    written = write_report(paths, tmp_path / name)
    return (tmp_path / name).read_text(), written


def headings(text: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", text)


def test_a_finished_search_with_a_comparison(tmp_path: Path):
    data = write_data(tmp_path / "data")
    text, written = report(tmp_path, write_search(tmp_path / "first", data), write_compare(tmp_path / "compare", data))
    page = Page(text)
    body = [word.strip() for word in page.words if word.strip()]
    assert body[1].startswith(
        "runs/first:best beats dcnv2, the best of the 2 other models, by 0.00060 test log loss (95 % interval"
    )
    assert headings(text) == [
        "Models", "The winner", "The search", "Does the score tell the truth?", "Log loss against cost", "Data", "To repeat it", "What was not done",
    ]  # fmt: skip
    outside = [link for link in page.links if not link.startswith(("#", "data:,", "report_files/"))]
    assert outside == []
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"https?:", text.replace("http://www.w3.org/2000/svg", ""))
    for name in [link for link in page.links if link.startswith("report_files/")]:
        assert (tmp_path / name).exists(), name
    assert written["bytes"] < 5e6


def test_every_figure_has_marks_and_both_files(tmp_path: Path):
    data = write_data(tmp_path / "data")
    text, _ = report(tmp_path, write_search(tmp_path / "first", data), write_compare(tmp_path / "compare", data))
    figures = re.findall(r'<figure id="fig-([^"]+)".*?</figure>', text, flags=re.DOTALL)
    for wanted in ("leaderboard", "differences", "winner_first", "trajectory_evaluations", "trajectory_seconds", "candidates_first", "family_first",
                   "terms_first_sigeo_zico", "truth_1", "pareto", "click_rate", "table_memory", "unknown_share", "training_curve"):  # fmt: skip
        assert wanted in figures
    for name in figures:
        root = ET.parse(tmp_path / "report_files" / f"{name}.svg").getroot()
        assert [node for node in root.iter() if "mark" in (node.get("class") or "").split()], name
        assert len((tmp_path / "report_files" / f"{name}.csv").read_text().splitlines()) > 1, name


def test_markdown_for_a_pull_request(tmp_path: Path):
    text, _ = report(tmp_path, write_search(tmp_path / "first"), name="report.md")
    assert text.startswith("**The winner of first reaches test log loss 0.51000 (95 % interval")
    assert "![Best score so far, against candidates scored](report_files/trajectory_evaluations.svg)" in text
    assert "| first: winner | 3 | 0.51000 ± 0.01000 |" in text
    assert "## What was not done" in text
    for name in re.findall(r"\]\((.*?)\)", text):
        assert (tmp_path / name).exists()


def test_a_run_that_stopped_half_way(tmp_path: Path):
    run = write_search(tmp_path / "half", finished=False)
    with open(run / "ledger.jsonl", "a") as file:
        file.write('{"event":"candidate","ind')  # cut by the crash
    text, written = report(tmp_path, run)
    Page(text)
    assert "stopped before its end" in written["verdict"]
    assert "best by score so far" in text
    assert f"recnas search --resume {run}" in text
    assert "Does the score tell the truth?" not in headings(text)


@pytest.mark.parametrize(
    "lines", [[], [candidate(0, 1.0)], [candidate(0, None, failed="broken")]], ids=["none", "one", "failed"]
)
def test_hardly_any_candidates(tmp_path: Path, lines: list[Candidate]):
    text, _ = report(tmp_path, write_search(tmp_path / "tiny", lines=lines, finished=False))
    Page(text)
    assert "What was not done" in headings(text)


def test_one_candidate_that_won(tmp_path: Path):
    run = write_search(tmp_path / "one")
    kept = [*read_run(run).of(PhaseDone), *trained(5, [0.55, 0.59])]
    (run / "ledger.jsonl").write_text(as_lines([candidate(5, 50.0), *kept]))
    text, written = report(tmp_path, run)
    Page(text)
    assert written["verdict"].startswith("The winner of one reaches test log loss 0.51000")
    assert "1 network: too few for a correlation" in text


def test_four_runs_together(tmp_path: Path):
    runs = [
        write_search(
            tmp_path / f"run{i}",
            seed=i,
            shift=i / 100,
            method="random" if i == 3 else "evolution",
            share=i / 100,
        )
        for i in range(4)
    ]
    text, written = report(tmp_path, *runs)
    Page(text)
    assert written["verdict"].startswith("Searched winners beat those of random search: -0.02000")
    for label in ("run0", "run1", "run2", "run3"):
        assert f"{label}, winner" in text
    assert len(re.findall(r'<figure id="fig-truth_\d', text)) == 4  # a panel per warm-up level
    assert "sigeo, no warm-up, run0" in text
    same = [write_search(tmp_path / folder / "run") for folder in ("a", "b")]
    Page(report(tmp_path, *same, name="same.html")[0])


def test_other_kinds_of_runs(tmp_path: Path):
    bench = write_run(
        tmp_path / "bench",
        {"kind": "bench", "data": {"path": "x", "fingerprint": "f" * 64}},
        trained(1, [0.6]) + trained(2, [0.5]),
    )
    text, written = report(tmp_path, bench)
    assert "no verdict" in written["verdict"]
    assert 'id="fig-pareto"' in text
    line = SeedTraining(seed=0, train_curve=[], test={"rows": 100, "clicks": 20, "logloss": 0.5})
    train = write_run(tmp_path / "train", {"kind": "train"}, [line], result=train_result([0.5]))
    assert "train reaches test log loss 0.50000 (one seed, no interval)" in report(tmp_path, train)[1]["verdict"]
    warmed = WarmupResult(share=0.1, rows=80, steps=5, batch_size=16, seconds=1.0)
    warmup = write_run(
        tmp_path / "warm", {"kind": "warmup", "config": {"warmup": {"data_share": 0.1}}}, [], result=warmed
    )
    Page(report(tmp_path, warmup)[0])


def test_names_from_outside_cannot_become_markup(tmp_path: Path):
    text, _ = report(tmp_path, write_search(tmp_path / "<script>alert(1)<"))
    assert "<script>alert" not in text
    Page(text)


def test_2048_candidates_in_five_seconds_below_5_mb_without_torch(tmp_path: Path):
    run = write_search(tmp_path / "long", lines=many_candidates(2048), finished=False)
    code = (
        "import sys\nfrom recnas.cli.main import main\n"
        f"assert main(['report', {str(run)!r}, '-o', {str(tmp_path / 'r.html')!r}]) == 0\n"
        "heavy = [m for m in ('torch', 'pandas', 'polars', 'sklearn', 'matplotlib') if m in sys.modules]\nassert not heavy, heavy"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Time of the processor: the machine of a test may be busy with other things.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5
    assert (tmp_path / "r.html").stat().st_size < 5e6
    assert len((tmp_path / "r_files" / "candidates_long.csv").read_text().splitlines()) == 2049


def test_four_long_runs_stay_below_5_mb(tmp_path: Path):
    runs = [
        write_search(tmp_path / f"long{i}", lines=many_candidates(2048, i), seed=i, finished=False) for i in range(4)
    ]
    assert report(tmp_path, *runs)[1]["bytes"] < 5e6


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = str(write_search(tmp_path / "first"))
    assert main(["report", run, "-o", str(tmp_path / "r.html"), "--files", str(tmp_path / "pictures"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["files"] == str(tmp_path / "pictures")
    assert "pictures/pareto.svg" in (tmp_path / "r.html").read_text()
    assert main(["report", run, "-o", str(tmp_path / "alone.md"), "--no-files"]) == 0
    assert not (tmp_path / "alone_files").exists()
    assert "![" not in (tmp_path / "alone.md").read_text()
    capsys.readouterr()
    assert main(["report", run, "-o", str(tmp_path / "r.pdf")]) == 2
    assert "-o r.html" in capsys.readouterr().err
    assert main(["report", str(tmp_path), "-o", "r.html"]) == 2
    assert "not a run directory" in capsys.readouterr().err
