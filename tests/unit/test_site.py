"""The documentation as a site: it builds, every link of the built pages leads somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from recnas.cli.main import COMMANDS
from recnas.cli.schema import FAMILIES, settings_of, settings_rows

pytest.importorskip("material", reason="mkdocs-material is not installed (pip install -e '.[dev]')")
pytestmark = pytest.mark.spawns

ROOT = Path(__file__).parents[2]


def build(out: Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "-f",
        str(root / "scripts/site/mkdocs.yml"),
        "-d",
        str(out),
    ]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, cwd=out.parent
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "site"
    done = build(out)
    assert done.returncode == 0, done.stderr
    return out


class Page(HTMLParser):
    """What a page links to, what a browser would fetch for it, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.fetched.append(given.get("href", ""))
        for name in ("src", "srcset", "data", "poster"):
            if given.get(name):
                self.fetched.append(given[name])


def faults(site: Path) -> list[str]:
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        found += [f"{where}: fetches {url}" for url in page.fetched if urlsplit(url).netloc]
        for url in [*page.links, *page.fetched]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if site.resolve() not in target.resolve().parents or not target.exists():
                found.append(f"{where}: no {url}")
            elif (
                parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors | {"__skip"}
            ):
                found.append(f"{where}: no anchor {url}")
    for sheet in site.rglob("*.css"):
        found += [
            f"{sheet.relative_to(site)}: fetches {url}"
            for url in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]*)", sheet.read_text())
        ]
    return found


def test_links_lead_somewhere_and_nothing_is_fetched_from_elsewhere(site: Path):
    assert not [fault for fault in faults(site) if not fault.startswith("404.html")]  # which stands at every address


def test_every_page_is_there(site: Path):
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name.replace("README.html", "index.html")).exists()
    for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG"):
        assert (site / "repository" / f"{name.replace('README', 'index')}.html").exists()


def test_the_reference_is_that_of_the_code(site: Path):
    import recnas

    commands, functions = ((site / "reference" / name).read_text() for name in ("commands.html", "python.html"))
    for name in COMMANDS:
        assert f'id="recnas-{name}"' in commands
    assert "--most-rows" in commands
    for name in recnas.__all__:
        assert f'id="recnas{name.lower()}"' in functions
    for family in FAMILIES:
        page = (site / "reference" / f"settings-{family}.html").read_text().replace("<wbr>", "")
        for row in settings_rows(settings_of(family)):
            assert f"<code>{row.key}</code>" in page


def test_lists_and_tables_are_what_github_shows(site: Path):
    """Python-Markdown wants an empty line before them."""
    for path in site.rglob("*.html"):
        text = re.sub(r"<pre.*?</pre>", "", path.read_text(), flags=re.DOTALL)
        assert not re.search(r"<p>[^<]*\n\|[- |:]+\|", text), path
        assert not re.search(r"<p>[^<]*\n- [A-Za-z`*]", text), path


def test_faults_are_found(tmp_path: Path):
    copy = tmp_path / "repository"
    for name in ("docs/README.md", "scripts/site/mkdocs.yml", "scripts/site/hooks.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    (copy / "scripts/site/reference.py").write_text("def pages():\n    return {}\n")
    settings = (copy / "scripts/site/mkdocs.yml").read_text().partition("\nnav:")[0]
    (copy / "scripts/site/mkdocs.yml").write_text(settings + "\n")
    (copy / "docs/README.md").write_text("# One\n[good](#one)\n")
    assert build(tmp_path / "good", copy).returncode == 0
    (copy / "docs/README.md").write_text("# One\n[gone](gone.md) [none](#two) [outside](../none.md)\n")
    done = build(tmp_path / "bad", copy)
    assert done.returncode != 0
    for link in ("gone.md", "#two", "../none.md"):
        assert link in done.stdout + done.stderr

    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "a.html").write_text(
        '<h1 id="x">t</h1><a href="b.html">b</a><a href="a.html#y">y</a><a href="https://example.org">away</a><a href="#x">x</a>'
        '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="//fonts.example/css"><img src="none.png">'
    )
    (tmp_path / "html" / "a.css").write_text("a { background: url('https://cdn.example/a.png') }")
    assert sorted(faults(tmp_path / "html")) == [
        "a.css: fetches https://cdn.example/a.png",
        "a.html: fetches //fonts.example/css",
        "a.html: fetches https://cdn.example/x.js",
        "a.html: no anchor a.html#y",
        "a.html: no b.html",
        "a.html: no none.png",
    ]
