"""Names of runs and models are other people's text: no page, table, file or terminal takes them for anything else."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from pathlib import Path

import pytest

from recnas.cli.main import main
from recnas.names import in_csv, in_markdown
from recnas.report.content import make_report
from recnas.report.markdown import render as as_markdown
from recnas.report.page import render as as_page
from tests.unit.report.small_runs import write_compare

POISON = "=cmd|' /C calc'!A0<img src=x onerror=alert(1)>](javascript:alert(1))`x`\x1b[2J\u202e"


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    run = write_compare(tmp_path / "cmp")
    board = (run / "leaderboard.json").read_text()
    (run / "leaderboard.json").write_text(board.replace('"deepfm"', json.dumps(POISON)))
    return run


def test_a_page_runs_its_own_script_and_nothing_else(poisoned: Path):
    page = as_page(make_report([poisoned]), None)
    assert "<img" not in page
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert page.index("Content-Security-Policy") < page.index("<style>"), "a policy counts for what follows it"


def test_markdown_holds_no_html_and_no_link_of_theirs(poisoned: Path):
    text = as_markdown(make_report([poisoned]), None)
    assert "&lt;img src=x" in text
    assert not re.search("[\x1b\u202e]", text)
    text = re.sub(r"(?s)(````*)\n.*?\n\1\n", "", text)  # code is shown as it is
    assert "<img" not in text
    assert "](javascript" not in text


def test_a_cell_is_no_formula(poisoned: Path):
    found = 0
    for table in make_report([poisoned]).tables():
        for row in csv.reader(io.StringIO(table.csv())):
            found += any(cell.startswith("'=cmd") for cell in row)
            assert not any(cell.startswith(("=", "@")) for cell in row)
    assert found
    assert [in_csv(cell) for cell in ("=1", "-1", -1, 0.5, None, "a", "")] == ["'=1", "'-1", -1, 0.5, None, "a", ""]


def test_a_terminal_is_given_text_only(poisoned: Path, capsys):
    for command in (
        ["watch", "--once", str(poisoned)],
        ["report", str(poisoned), "-o", str(poisoned.parent / "r.html")],
    ):
        assert main(command) == 0
        said = capsys.readouterr()
        assert not re.search("[\x1b\u202e]", said.out + said.err)
    assert main(["train", "\x1b[2Jnone.json", "--data", "x", "--out", "y"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_plain_text_stays_as_it_is():
    for text in ("0.51000 ± 0.01000", "[0.4, 0.6]", "runs/first:best", "a_b * c"):
        assert in_markdown(text) == text
    assert in_markdown("a\n<b> & [x](y)") == "a &lt;b&gt; &amp; [x]\\(y)".replace("&gt;", ">")
