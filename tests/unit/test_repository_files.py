"""Files that other programs and people of the ecosystem look for: they parse, and say what is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_one_version_everywhere():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["version"]
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == PROJECT["version"]


def test_a_changelog_has_three_parts():
    parts = re.findall(r"^### (\w+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert parts[:3] == ["New", "Changed", "Fixed"]
    assert set(parts) <= {"New", "Changed", "Fixed"}


def test_citation():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["license"] == PROJECT["license"]
    assert set(cited["keywords"]) <= set(PROJECT["keywords"])


def test_hosted_ci_runs_our_script_on_supported_pythons():
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["test"]
    least = tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))
    versions = [tuple(map(int, version.split("."))) for version in job["strategy"]["matrix"]["python"]]
    assert versions[0] == least
    assert versions == sorted(versions)
    ours = [step["run"] for step in job["steps"] if "run" in step]
    assert [ROOT.joinpath(command).exists() for command in ours] == [True]
    assert set(job["env"]["RECNAS_EXTRAS"].split(",")) <= set(PROJECT["optional-dependencies"])


def test_extras_that_scripts_name_exist():
    for script in (".ci/run", "scripts/setup"):
        for extras in re.findall(r"RECNAS_EXTRAS=([\w,]+)", (ROOT / script).read_text()):
            assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])


def test_hooks_fetch_nothing():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    hooks = config["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    for hook in hooks:
        program = hook["entry"].split()[0]
        assert program.startswith(".venv/bin/")
        assert any(needed.startswith(Path(program).name) for needed in PROJECT["optional-dependencies"]["dev"])


def test_issue_templates_have_a_head():
    for file in sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.md")):
        _, head, body = file.read_text().split("---\n", 2)
        assert {"name", "about"} <= set(yaml.safe_load(head))
        assert body.strip()
