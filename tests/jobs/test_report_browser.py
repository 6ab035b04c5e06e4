"""Reports and drawings in a real browser. Skipped, and says why, where no Chromium can be had.

Two screenshots are kept: in the folder named by RECNAS_ARTEFACTS, else in pytest's temporary one.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from recnas.report.draw import draw_file, find_arch
from recnas.report.write import write_report
from tests.jobs.browser import Browser, NoBrowser
from tests.unit.report.small_runs import many_candidates, trained, write_compare, write_data, write_search

# The contrast of every text with what lies behind it, by the formula of the accessibility guidelines.
CONTRAST = """
const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
const light = c => { const v = parse(c).slice(0, 3).map(x => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; const p = parse(c);
  if (p.length < 4 || p[3] > 0) { return c; } } return 'rgb(255, 255, 255)'; };
const bad = [];
for (const e of document.querySelectorAll('h1, h2, p, li, td, th, a, figcaption, caption, pre, button, summary, svg text')) {
  if (!e.textContent.trim() || e.closest('.off')) { continue; }
  const style = getComputedStyle(e);
  const ink = e.namespaceURI.endsWith('svg') ? style.fill : style.color;
  const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) { bad.push([ratio.toFixed(2), e.tagName, e.getAttribute('class'), e.textContent.slice(0, 40)]); }
}
return bad;
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    try:
        found = Browser(tmp_path_factory.mktemp("profile"))
    except NoBrowser as error:
        warnings.warn(f"BROWSER TESTS SKIPPED: {error}", stacklevel=1)
        pytest.skip(f"BROWSER TESTS SKIPPED: {error}")
    yield found
    found.close()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search of 300 candidates with ten trained ones, a random search and a comparison."""
    folder = tmp_path_factory.mktemp("reported")
    data = write_data(folder / "data")
    lines, others = many_candidates(300), many_candidates(128, 1)
    best = sorted(range(300), key=lambda index: -lines[index].values["sigeo"])[:10]
    more = [
        event
        for rank, index in enumerate(best[1:])
        for event in trained(index, [0.58 + rank * 7 % 5 / 100, 0.59 + rank * 3 % 7 / 100])
    ]
    first = write_search(folder / "first", data, lines=[*lines, *more], winner=best[0])
    top = max(range(128), key=lambda index: others[index].values["sigeo"])
    drawn = write_search(folder / "random", data, lines=others, method="random", shift=0.01, winner=top)
    write_report([first, drawn, write_compare(folder / "compare", data)], folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(os.environ.get("RECNAS_ARTEFACTS") or tmp_path_factory.mktemp("artefacts"))


@pytest.fixture
def fresh(browser: Browser, page: Path) -> Browser:
    """The report, just opened on a wide light screen, with the logs emptied before."""
    browser.colours("light")
    browser.resize(1600, 1000)
    browser.log("browser")
    browser.requests()
    browser.open(page)
    return browser


def test_no_errors_and_no_requests(fresh: Browser, page: Path):
    assert fresh.run("return document.querySelectorAll('h2').length") == 8
    assert fresh.log("browser") == []
    asked = [address for address in fresh.requests() if not address.startswith("data:")]
    assert asked == [page.resolve().as_uri()]


def test_every_figure_has_marks_of_some_size(fresh: Browser):
    found = fresh.run(
        """return [...document.querySelectorAll('figure')].map(f => [f.id, [...f.querySelectorAll('svg .mark')].filter(m => {
           const b = m.getBoundingClientRect(); return b.width + b.height > 1; }).length])"""
    )
    assert len(found) > 15
    assert [name for name, marks in found if marks == 0] == []


def test_marks_lie_inside_their_figures(fresh: Browser):
    outside = fresh.run(
        """return [...document.querySelectorAll('figure svg')].flatMap(s => { const o = s.getBoundingClientRect();
           return [...s.querySelectorAll('.mark, text')].filter(m => { const b = m.getBoundingClientRect();
             return b.left < o.left - 2 || b.right > o.right + 2 || b.top < o.top - 2 || b.bottom > o.bottom + 2; })
             .map(m => [s.closest('figure').id, m.tagName, m.textContent]); })"""
    )
    assert outside == []


def test_a_click_sorts_a_table(fresh: Browser):
    def column() -> list[str]:
        return fresh.run(
            "return [...document.querySelectorAll('#table-leaderboard tbody tr')].map(r => r.cells[0].textContent)"
        )

    start = column()
    assert start[0] == "runs/first:best"
    titles = fresh.run("return [...document.querySelectorAll('#table-leaderboard th')].map(h => h.textContent)")
    place = titles.index("FLOPs per row") + 1
    heading = f"#table-leaderboard th:nth-child({place}) button"
    fresh.click(heading)
    rising = column()
    assert rising[-1] == "dcnv2"  # 100,000 FLOPs, the most
    assert (
        fresh.run(
            f"return document.querySelector('#table-leaderboard th:nth-child({place})').getAttribute('aria-sort')"
        )
        == "ascending"
    )
    fresh.click(heading)
    assert column()[0] == "dcnv2"
    delta = titles.index("difference to dcnv2") + 1
    fresh.click(f"#table-leaderboard th:nth-child({delta}) button")
    assert column()[:2] == ["runs/first:best", "deepfm"]  # what has no difference stays last
    fresh.click("#table-leaderboard th:nth-child(1) button")
    assert column() == sorted(start)


def test_pointing_tells_and_the_button_enlarges(fresh: Browser):
    fresh.hover("#fig-pareto svg .f1.mark")
    assert "validation log loss" in fresh.run(
        "const t = document.getElementById('tip'); return t.hidden ? '' : t.textContent"
    )
    before = fresh.run("return document.querySelector('#fig-pareto svg').clientWidth")
    fresh.click("#fig-pareto button")
    assert fresh.run("return document.querySelector('#fig-pareto svg').clientWidth") > 1.5 * before


def test_dragging_zooms_and_a_double_click_undoes(fresh: Browser):
    sides = """const s = document.querySelector('#fig-pareto svg'), b = s.getBoundingClientRect();
      const fire = (kind, x, y) => s.dispatchEvent(new PointerEvent(kind, {bubbles: true, pointerType: 'mouse', clientX: b.left + x * b.width, clientY: b.top + y * b.height}));
      fire('pointerdown', 0.25, 0.25); fire('pointerup', 0.75, 0.75); const zoomed = s.getAttribute('viewBox').split(' ').map(Number);
      s.dispatchEvent(new MouseEvent('dblclick', {bubbles: true})); return [zoomed, s.getAttribute('viewBox').split(' ').map(Number)];"""
    zoomed, whole = fresh.run(sides)
    assert zoomed[2] == pytest.approx(whole[2] / 2, rel=0.02)
    assert whole[0] == 0


@pytest.mark.parametrize("width", [400, 1600])
def test_readable_at(fresh: Browser, width: int):
    fresh.resize(width, 900)
    assert (
        fresh.run("return document.documentElement.scrollWidth") <= width
    )  # nothing scrolls sideways but tables in their boxes
    small = fresh.run(
        """return [...document.querySelectorAll('p, li, td, th, figcaption, figure text')].filter(e => e.textContent.trim()).map(e => {
           const s = e.ownerSVGElement; const scale = s ? s.getBoundingClientRect().width / s.viewBox.baseVal.width : 1;
           return [parseFloat(getComputedStyle(e).fontSize) * scale, e.textContent.slice(0, 40)]; }).filter(f => f[0] < 8.5)"""
    )
    assert small == []
    overlap = fresh.run(
        """return [...document.querySelectorAll('figure')].filter(f => { const b = f.getBoundingClientRect(); return b.right > innerWidth + 1 || b.width < 200; }).map(f => f.id)"""
    )
    assert overlap == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(fresh: Browser, scheme: str):
    fresh.colours(scheme)
    background = fresh.run("return getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(17, 21, 27)")
    assert fresh.run(CONTRAST) == []


def test_readable_without_script(browser: Browser, page: Path):
    browser.devtools("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        tree, found = _first_row(browser)
        box = browser.devtools("DOM.getBoxModel", nodeId=found["nodeId"])["model"]
        assert box["height"] > 10
        title = browser.devtools("DOM.querySelector", nodeId=tree, selector="#fig-pareto svg .mark title")
        assert title["nodeId"]  # the browser's own hover still has its text
    finally:
        browser.devtools("Emulation.setScriptExecutionDisabled", value=False)


def _first_row(browser: Browser) -> tuple[int, dict]:
    """Node ids die when the document is replaced, which a busy machine may do after `open` has returned."""
    for attempt in range(20):
        try:
            tree = browser.devtools("DOM.getDocument", depth=0)["root"]["nodeId"]
            found = browser.devtools("DOM.querySelector", nodeId=tree, selector="#table-leaderboard tbody tr")
            if found["nodeId"]:
                return tree, found
        except RuntimeError:
            if attempt == 19:
                raise
        time.sleep(0.25)
    pytest.fail("the leaderboard has no rows without script")


def test_prints(fresh: Browser):
    fresh.colours("dark")
    assert 2 <= fresh.pdf_pages() <= 40
    fresh.devtools(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    try:
        assert (
            fresh.run("return getComputedStyle(document.body).color") == "rgb(26, 33, 44)"
        )  # dark ink, whatever the screen likes
        assert fresh.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    finally:
        fresh.devtools("Emulation.setEmulatedMedia", media="")


def test_screenshots(fresh: Browser, artefacts: Path):
    fresh.screenshot(artefacts / "report-1600-light.png", whole=True)
    fresh.resize(400, 900)
    fresh.colours("dark")
    fresh.screenshot(artefacts / "report-400-dark.png", whole=True)
    for name in ("report-1600-light.png", "report-400-dark.png"):
        assert (artefacts / name).stat().st_size > 50_000


def test_a_drawing_of_its_own_opens(browser: Browser, tmp_path: Path, page: Path):
    picture = tmp_path / "best.svg"
    picture.write_text(draw_file([find_arch(f"{page.parent}/first:1"), find_arch(f"{page.parent}/first:best")]))
    browser.log("browser")
    browser.requests()
    browser.open(picture)
    assert browser.run("return document.querySelectorAll('.mark').length") > 20
    assert browser.log("browser") == []
    assert browser.requests() == [picture.resolve().as_uri()]


def test_on_a_wide_screen_cost_and_latency_are_seen_without_scrolling(fresh: Browser):
    edges = fresh.run(
        "const t = document.querySelector('#table-leaderboard');"
        "const names = ['FLOPs per row', 'parameters', 'ms for 1 row', 'ms for 512 rows'];"
        "const heads = [...t.querySelectorAll('th')].filter(h => names.includes(h.textContent));"
        "return [t.parentElement.getBoundingClientRect().right, ...heads.map(h => h.getBoundingClientRect().right)];"
    )
    assert len(edges) == 5
    assert max(edges[1:]) <= edges[0] <= 1600
