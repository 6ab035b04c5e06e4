"""What MkDocs is told besides its settings: pages from outside docs/, generated pages, and Markdown as GitHub reads it.

Pages under docs/ link to the rest of the repository. A file that is linked to becomes a part of the site under repository/:
Markdown and folders as pages, everything else as it is.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from reference import pages  # noqa: E402

OUTSIDE = "repository/"
CSS = """
.md-grid { max-width: 84rem; }
.md-typeset table:not([class]) { font-size: .68rem; }
.md-typeset table:not([class]) td { min-width: 5rem; }
.md-typeset table:not([class]) th { min-width: 3rem; }
.md-typeset table:not([class]) code { word-break: normal; overflow-wrap: normal; }
.md-typeset img { max-width: 100%; height: auto; }
.md-typeset pre > code { max-height: 40rem; }
"""
_LINK = re.compile(r"(\]\(<?)([^)\s>]+)(>?(?:\s+\"[^\"]*\")?\))")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_ITEM = re.compile(r"^ {0,3}([-*+]|\d+[.)]) +\S")


def on_files(files: Files, config) -> Files:
    def add(uri: str, content: str | bytes) -> None:
        files.append(File.generated(config, uri, content=content))

    add("assets/site.css", CSS)
    for name, text in pages().items():
        add(name, text)
    queue = [file.src_uri for file in files.documentation_pages() if not file.src_uri.startswith("reference/")]
    seen: set[str] = set()

    def bring(path: str) -> None:
        if path in seen or _inside(path) or not (ROOT / path).exists():
            return
        seen.add(path)
        if (ROOT / path).is_dir():
            inside = _files(path)
            add(f"{OUTSIDE}{path}/index.md", _listing(path, inside))
            for name in inside:
                bring(f"{path}/{name}")
        elif path.endswith(".md"):
            add(OUTSIDE + path, (ROOT / path).read_text(encoding="utf-8"))
            queue.append(OUTSIDE + path)
        else:
            add(OUTSIDE + path, (ROOT / path).read_bytes())

    while queue:
        uri = queue.pop()
        for path in sorted({path for path, _ in _targets(_source(uri), _text(uri))}):
            bring(path)
    return files


def on_page_markdown(markdown: str, page, config, files: Files) -> str:
    uri = page.file.src_uri
    if uri.startswith("reference/"):
        return markdown
    here = _source(uri)

    def moved(target: str) -> str:
        path, anchor = _resolved(here, target)
        if not path or not (ROOT / path).exists():
            return target
        inside = path.removeprefix("docs/") if _inside(path) else OUTSIDE + path
        if (ROOT / path).is_dir():
            inside += "/README.md" if _inside(path) else "/index.md"
        return posixpath.relpath(inside, posixpath.dirname(uri) or ".") + anchor

    return "\n".join(_spaced(_each_link(markdown, moved)))


def _source(uri: str) -> str:
    """Where in the repository a page of the site stands."""
    return uri.removeprefix(OUTSIDE) if uri.startswith(OUTSIDE) else f"docs/{uri}"


def _text(uri: str) -> str:
    path = ROOT / _source(uri)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _inside(path: str) -> bool:
    return path.startswith("docs/") or path == "docs"


def _resolved(here: str, target: str) -> tuple[str, str]:
    """The path in the repository that a link of the file `here` means, and its anchor; "" if it is no such link."""
    name, mark, anchor = target.partition("#")
    if not name or re.match(r"[a-z][a-z0-9+.-]*:|/", name):
        return "", ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(here), name)), mark + anchor


def _targets(here: str, text: str) -> Iterator[tuple[str, str]]:
    for line, fenced in _lines(text):
        for found in () if fenced else _LINK.finditer(line):
            path, anchor = _resolved(here, found[2])
            if path:
                yield path, anchor


def _each_link(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(
        line if fenced else _LINK.sub(lambda found: found[1] + change(found[2]) + found[3], line)
        for line, fenced in _lines(text)
    )


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Every line, and whether it belongs to fenced code."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
            yield line, True
        elif mark and mark[1].startswith(fence):
            fence = ""
            yield line, True
        else:
            yield line, bool(fence)


def _spaced(text: str) -> Iterator[str]:
    """An empty line before a list or a table that follows a paragraph: GitHub needs none, Python-Markdown does."""
    before, listed = "", False
    for line, fenced in _lines(text):
        item = not fenced and bool(_ITEM.match(line))
        table = not fenced and line.startswith("|") and not before.startswith("|")
        if before.strip() and ((item and not listed) or table):
            yield ""
        if not fenced:
            listed = item or (listed and bool(line.strip()))
        before = line
        yield line


def _files(folder: str) -> list[str]:
    """What is shown of a folder: the Markdown in it, or else its files."""
    here = ROOT / folder
    found = sorted(here.rglob("*.md")) or sorted(path for path in here.iterdir() if path.is_file())
    return [path.relative_to(here).as_posix() for path in found]


def _listing(folder: str, names: list[str]) -> str:
    return f"# {folder}\n\n" + "\n".join(f"- [{name}]({name})" for name in names) + "\n"
