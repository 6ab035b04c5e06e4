"""The code blocks of README and docs do what the pages say: run at a small scale, or marked with the reason why not."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from pathlib import Path

import pytest

from recnas.cli.main import COMMANDS
from recnas.cli.shipped import shipped_configs
from recnas.data.raw.recipe import load_recipe
from tests.jobs.doc_blocks import PAGES, ROOT, Block, blocks, run
from tests.jobs.search_helpers import as_yaml, small_search
from tests.plugin_state import no_plugins_left  # noqa: F401

BLOCKS = [block for page in PAGES for block in blocks(page)]
TUTORIALS = "docs/tutorials"
FIRST = f"{TUTORIALS}/ten-minutes.md"
# What is run together in one folder: pages, of the first one maybe only some blocks.
SESSIONS: dict[str, list[tuple[str, int | None]]] = {
    "first": [(FIRST, None), (f"{TUTORIALS}/reading-a-report.md", None), ("docs/report.md", None)],
    "own-data": [(f"{TUTORIALS}/own-data.md", None)],
    "own-proxy": [(FIRST, 1), (f"{TUTORIALS}/own-proxy.md", None), ("docs/proxies.md", None)],
    "own-space": [(f"{TUTORIALS}/own-space.md", None)],
    "cluster": [(FIRST, 1), (f"{TUTORIALS}/laptop-to-cluster.md", None)],
    "nasrec-plus": [("docs/nasrec-plus.md", None)],
    "vision-spaces": [("docs/vision-spaces.md", None)],
}
RUN_PAGES = {page for session in SESSIONS.values() for page, _ in session}


def is_recipe(block: Block) -> bool:
    return block.page == "docs/recipes.md" and block.language == "yaml"


def of(page: str) -> list[Block]:
    return [block for block in BLOCKS if block.page == page]


def test_every_block_is_run_or_says_why_not():
    neither = [block.name for block in BLOCKS if block.is_run and block.page not in RUN_PAGES and not is_recipe(block)]
    assert not neither
    run_here = [block for block in BLOCKS if block.is_run]
    elsewhere = [block for block in BLOCKS if block.mark in ("run in", "run as")]
    not_run = [block for block in BLOCKS if block.mark == "not run"]
    assert len(run_here) + len(elsewhere) + len(not_run) == len(BLOCKS)
    assert len(run_here) > 30  # 38 of 98, when this was written
    assert all(len(block.said) >= 5 for block in not_run)


@pytest.mark.usefixtures("no_plugins_left")
@pytest.mark.parametrize("session", SESSIONS)
def test_blocks_are_run(session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    # What takes longest and is tested elsewhere: seconds of timing, and a second process that scores raw rows.
    monkeypatch.setattr("recnas.train.latency.answer_times", lambda *_, on: {1: [0.001], 512: [0.001]})
    monkeypatch.setattr(
        "recnas.serve.export.check_raw_rows",
        lambda *_: {"rows": 0, "from_file": 0, "rebuilt": 0, "max_abs_difference": 0.0},
    )
    as_yaml(small_search("data/ads", final={"candidates": 1, "rows": 500}), tmp_path / "small.yaml")
    for page, count in SESSIONS[session]:
        names: dict = {}
        for block in [block for block in of(page) if block.is_run][:count]:
            run(block, tmp_path, names)


@pytest.mark.parametrize("block", [b for b in BLOCKS if is_recipe(b)], ids=lambda block: block.name)
def test_recipes_are_recipes(block: Block, tmp_path: Path):
    if not block.is_run:
        pytest.skip(block.said)
    (tmp_path / "recipe.yaml").write_text(block.code)
    assert load_recipe(str(tmp_path / "recipe.yaml")).input_columns(())


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.mark == "run in"], ids=lambda block: block.name)
def test_what_is_run_elsewhere_is(block: Block):
    assert Path(block.page).name in (ROOT / block.said).read_text()


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.mark == "run as"], ids=lambda block: block.name)
def test_what_is_run_as_another_page_is(block: Block):
    there = {" ".join(command.split()) for other in of(block.said) if other.is_run for command in other.commands}
    assert block.said in RUN_PAGES
    absent = [
        command for command in block.commands if not command.startswith(". ") and " ".join(command.split()) not in there
    ]
    assert not absent


COMMAND_LINES = [
    (block, command)
    for block in BLOCKS
    if block.language in ("sh", "") and "recnas " in block.code
    for command in block.commands
    if re.match(r"(torchrun .* -m )?recnas ", command)
]


@pytest.mark.parametrize(("block", "command"), COMMAND_LINES, ids=[f"{b.name}-{c[:40]}" for b, c in COMMAND_LINES])
def test_commands_are_commands(block: Block, command: str):
    """Also of blocks that are not run: the command and its options exist, and so do shipped configs that it names."""
    words = shlex.split(command[command.index("recnas ") :])
    for stop in ("|", ">", "&&"):
        words = words[: words.index(stop)] if stop in words else words
    name, rest = words[1], [word for word in words[2:] if word != "..."]
    assert name in COMMANDS
    parser = argparse.ArgumentParser(prog=name, exit_on_error=False)
    importlib.import_module(f"recnas.cli.{name}").add_arguments(parser)
    if "--plugin" in rest:
        rest = rest[: rest.index("--plugin")] + rest[rest.index("--plugin") + 2 :]
    if "..." in words:  # something was left out that is required
        rest = ["synthetic/laptop", *rest]
    try:
        parser.parse_intermixed_args(rest)
    except (SystemExit, argparse.ArgumentError) as error:
        pytest.fail(f"{command}: {error}")
    configs = shipped_configs()
    families = {key.split("/")[0] for key in configs}
    for word in rest if name in ("search", "warmup", "contest", "correlate", "forecast", "plan") else ():
        if re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", word) and word.split("/")[0] in families:
            assert word in configs


def test_marks_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\nrecnas one \\\n  --two  # three\n\n# four\n```\n<!-- not run: because of it -->\n  ```python\n  1 / 0\n  ```\n"
        "<!-- run in tests with: 0 => 1; 1 => 2 -->\n```python\nx = 0\n```\n```yaml\n# file: a.yaml\nb: 1\n```\n"
    )
    shell, marked, changed, written = blocks(page)
    assert shell.commands == ["recnas one    --two"]
    assert (marked.is_run, marked.said, marked.code) == (False, "because of it", "1 / 0\n")
    assert (changed.is_run, changed.small()) == (True, "x = 2\n")
    run(written, tmp_path, {})
    assert (tmp_path / "a.yaml").read_text() == "b: 1\n"
    with pytest.raises(ZeroDivisionError):
        run(marked, tmp_path, {})
    with pytest.raises(AssertionError, match="exit code 2"):
        run(shell.__class__("p", 1, "sh", "recnas nothing\n", "", ""), tmp_path, {})
    with pytest.raises(AssertionError, match="is not in the block"):
        shell.__class__("p", 1, "sh", "a\n", "run in tests with", "b => c").small()
