import math
import xml.etree.ElementTree as ET

import pytest

from recnas.report.rows_svg import Dot, bars, dots
from recnas.report.svg import Axis, Chart, log_ticks, round_ticks, standalone, tick_labels

SVG = "{http://www.w3.org/2000/svg}"


def test_ticks_are_round_and_inside():
    assert round_ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert round_ticks(-0.7, 0.3, 4) == [-0.5, 0]
    assert round_ticks(0.4994, 0.5011, 5) == [0.4995, 0.5, 0.5005, 0.501]
    assert log_ticks(900, 25_000) == [1000, 2000, 5000, 10_000, 20_000]
    assert log_ticks(1, 1e6) == [10.0**d for d in range(7)]
    assert log_ticks(13, 14) == [13, 13.5, 14]


def test_labels_tell_ticks_apart():
    assert tick_labels([0.5, 0.50005, 0.5001]) == ["0.50000", "0.50005", "0.50010"]
    assert tick_labels([-1, -0.5, 0]) == ["-1.0", "-0.5", "0.0"]
    assert tick_labels([0, 20, 40]) == ["0", "20", "40"]
    assert tick_labels([1000, 10_000, 1e6]) == ["1,000", "10,000", "1M"]
    assert tick_labels([13, 13.5, 14]) == ["13.0", "13.5", "14.0"]


def test_axes_of_one_value_have_a_width():
    for axis in (
        Axis.around("x", [3.0]),
        Axis.around("x", [0.0]),
        Axis.around("x", []),
        Axis.around("x", [5.0], log=True),
        Axis.around("x", [-2.0]),
        Axis.around("x", [0.0, 0.0], zero=True),
        Axis.around("x", [], zero=True),
        Axis.around("x", [7.0], zero=True),
        Axis.around("x", [-7.0], zero=True),
        Axis.around("x", [math.nan, math.inf]),
        Axis.around("x", [1.0, 1.0 + 2**-52]),
        Axis.around("x", [1.0, 1.0 + 2**-52], log=True),
        Axis.around("x", [0.0, 0.0], log=True),
    ):
        assert axis.low < axis.high
        assert axis.ticks()
        assert len(set(tick_labels(axis.ticks()))) == len(axis.ticks())
    assert Axis.around("x", [3.0]).place(3.0) == pytest.approx(0.5)
    assert Axis.around("x", [0.0], zero=True).place(0.0) == 0.0
    assert Axis.around("x", [1.0, 10.0], log=True).place(0.0) == 0.0  # has no logarithm


def test_bars_and_dots_of_zeros_are_drawn():
    for drawn in (
        bars("t", "MB", [("a", 0.0, "nothing"), ("b", 0.0, "nothing")]),
        bars("t", "MB", []),
        dots("t", "share", [Dot("a", 0.0, "zero", (0.0, 0.0))], (0.0, 0.0), zero=True),
        dots("t", "share", []),
    ):
        ET.fromstring(drawn)


def test_points_land_where_the_axes_say():
    chart = Chart("t", Axis("x", 0, 10), Axis("y", 0, 1), width=130, height=156, left=16)
    chart.points([(5, 0.5, "five & <half>")], "f0", 3)
    found = ET.fromstring(chart.render())
    (circle,) = found.iter(f"{SVG}circle")
    assert (float(circle.get("cx")), float(circle.get("cy"))) == (
        16 + 50,
        12 + 50,
    )  # 100 wide, 100 tall between the margins
    assert circle.find(f"{SVG}title").text == "five & <half>"


def test_lines_bands_and_legends_are_well_formed():
    chart = Chart("a < b", Axis.around("x", [1, 2]), Axis.around("y", [1, 2]))
    chart.line([(1, 1), (2, 2)], "line c0", steps=True)
    chart.line([], "line c1")
    chart.band([(1, 1, 2), (2, 1, 2)], "f0")
    chart.label(2, 2, "<name>")
    chart.level(1.5)
    for name in ("a series with a long name", "another series with a long name", "third"):
        chart.legend(name, "f1")
    text = standalone(chart.render())
    root = ET.fromstring(text)
    assert root.get("width") == "440"
    assert float(root.get("height")) > 300  # two lines of legend
    assert "prefers-color-scheme:dark" in text
    assert "NaN" not in text


def test_rows():
    drawn = dots(
        "t",
        "x",
        [Dot("one", 1.0, "1", [0.5, 1.5], [0.9, 1.1]), Dot("a very long name of a model indeed", 2.0, "2")],
        noise=[0.8, 1.2],
        zero=True,
    )
    root = ET.fromstring(drawn)
    assert len(list(root.iter(f"{SVG}circle"))) == 4
    root = ET.fromstring(bars("t", "MB", [("C1", 2.0, "two"), ("C2", 0.0, "none")]))
    wide, narrow = [float(r.get("width")) for r in root.iter(f"{SVG}rect")]
    assert wide > 100
    assert narrow == 0.8  # still to be seen


def test_names_do_not_cover_each_other():
    chart = Chart("t", Axis("x", 0, 10), Axis("y", 0, 10))
    for place in range(4):
        chart.label(5 + place / 10, 5, f"model {place}")
    found = [node for node in ET.fromstring(chart.render()).iter(f"{SVG}text") if (node.text or "").startswith("model")]
    boxes = [(float(node.get("x")), float(node.get("y"))) for node in found]
    assert len(boxes) == 4
    for one in boxes:
        assert all(one == other or abs(one[0] - other[0]) > 40 or abs(one[1] - other[1]) >= 13 for other in boxes)
