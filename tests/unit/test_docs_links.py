"""Every relative link, image and anchor in the documentation leads somewhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page for pattern in ("*.md", "docs/**/*.md", "datasets/**/*.md", "tests/**/*.md") for page in ROOT.glob(pattern)
)

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINKS = (
    re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\s*\)"),  # [text](target "title"), ![image](target)
    re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)"),  # [name]: target
    re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)\s*=\s*[\"']([^\"']+)"),
)
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def prose(text: str) -> Iterator[str]:
    """The lines outside fenced code."""
    fence = ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        elif not fence:
            yield line


def links(text: str) -> Iterator[str]:
    for line in prose(text):
        plain = _CODE.sub("", line)
        for pattern in _LINKS:
            yield from (target for target in pattern.findall(plain) if not _SCHEME.match(target))


def anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page."""
    seen: Counter[str] = Counter()
    names = set(re.findall(r"<a\s+(?:id|name)=[\"']([^\"']+)", text))
    for line in prose(text):
        heading = re.match(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$", line)
        if not heading:
            continue
        shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        names.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return names


def leads_somewhere(link: str, page: Path, root: Path) -> bool:
    """To a file or folder of the repository, and to a heading of it if the link names one."""
    name, _, anchor = unquote(link).partition("#")
    target = (page.parent / name if name else page).resolve()
    if name.startswith("/") or not target.is_relative_to(root.resolve()) or not target.exists():
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors(target.read_text()))


def broken(page: Path, root: Path) -> list[str]:
    return [link for link in links(page.read_text()) if not leads_somewhere(link, page, root)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    assert not broken(page, ROOT)


def test_the_pages_are_found():
    names = {page.relative_to(ROOT).as_posix() for page in PAGES}
    assert {
        "README.md",
        "docs/README.md",
        "docs/results/README.md",
        "datasets/criteo/README.md",
        "tests/paper/README.md",
    } <= names


def test_every_page_is_in_the_index():
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index.read_text())}
    assert not [page for page in (ROOT / "docs").rglob("*.md") if page != index and page.resolve() not in listed]


def test_broken_links_are_noticed(tmp_path: Path):
    (tmp_path / "a b.md").write_text("# One, `two`: three's\n## Again\n## Again\n```\n# not a heading\n```\n")
    good = ["a%20b.md#one-two-threes", "a%20b.md#again-1", "#here", "https://example.org/x", "mailto:a@b.c", "."]
    bad = ["none.md", "a%20b.md#not-a-heading", "a%20b.md#again-2", "#there", "/etc/hosts", "../..", "none.png"]
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n"
        + "\n".join(f"[text]({link}), `[code](none)`" for link in good)
        + "\n```\n[in a fence](none.md)\n```\n"
        + "\n".join(f'![image]({link} "title")' for link in bad[:-1])
        + f'\n<img src="{bad[-1]}">\n[name]: gone.md\n'
    )
    assert broken(page, tmp_path) == [*bad, "gone.md"]
