"""Drawings of DARTS, NAS-Bench-101, 1Shot1 and MLP architectures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from recnas.cli.main import main
from recnas.errors import SpaceError
from recnas.report.arcs_svg import rises_of
from recnas.report.draw import describe_differences, draw, find_arch, parse
from recnas.space.darts import DARTS_V2, DartsSpace
from recnas.space.drawing import Link
from recnas.space.registry import get_space

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["darts", "nasbench101", "nasbench1shot1-1", "nasbench1shot1-3", "mlp", "resnet-like"]


def titles(text: str) -> list[str]:
    return [found.text for found in ET.fromstring(text).iter(f"{SVG}title")]


def test_rows_of_a_genotype_by_hand():
    normal, reduce = DartsSpace().rows("x", find_arch(DARTS_V2).arch)
    assert (normal.name, reduce.name) == ("x: normal cell", "x: reduction cell")
    assert [box.label for box in normal.boxes] == ["k − 2", "k − 1", "2", "3", "4", "5"]
    assert normal.links[0] == Link(0, 2, "sep 3×3", 0, -1)
    assert normal.links[-1] == Link(2, 5, "dil 3×3", 1, 1)
    assert len(reduce.links) == 8


def test_no_two_arcs_share_a_line():
    space, rng = DartsSpace(), np.random.default_rng(0)
    for _ in range(50):
        for row in DartsSpace().rows("x", space.sample(rng)):
            rises = rises_of(row.links)
            assert len(rises) == 8
            arcs = list(rises.items())
            for number, (one, high) in enumerate(arcs):
                for other, also in arcs[:number]:
                    apart = one.end <= other.start or other.end <= one.start
                    assert apart or one.side != other.side or high != also


@pytest.mark.parametrize("name", NAMES)
def test_every_architecture_can_be_drawn_and_compared(name: str):
    space, rng = get_space(name), np.random.default_rng(0)
    for _ in range(10):
        one = space.sample(rng)
        other = space.mutate(one, rng)
        a, b = (parse(json.dumps(space.to_dict(arch)), label) for arch, label in ((one, "one"), (other, "other")))
        assert (a.arch, a.kind.name) == (one, name)
        alone, same, two = draw([a]), draw([a, a]), draw([a, b])
        assert "halo" not in alone + same
        assert "changed" not in alone + same
        assert "halo" in two or "changed" in two
        assert describe_differences([a, b])
        root = ET.fromstring(two)
        _, _, width, height = map(float, root.get("viewBox").split())
        for group in root.iter(f"{SVG}g"):
            left, top = map(float, group.get("transform").removeprefix("translate(").removesuffix(")").split())
            for box in group.iter(f"{SVG}rect"):
                assert 0 <= left + float(box.get("x")) <= width - float(box.get("width"))
                assert 0 <= top + float(box.get("y")) <= height - float(box.get("height"))


def test_titles_say_what_is_drawn():
    found = titles(draw([find_arch(DARTS_V2)]))
    assert "2 to 5: dil 3×3" in found
    cell = find_arch("010001000/conv3x3-bn-relu")
    assert "vertex 1: conv3x3-bn-relu" in titles(draw([cell]))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "genotype.txt"
    file.write_text(DARTS_V2.replace("'skip_connect', 0", "'avg_pool_3x3', 0", 1) + "\n")
    assert main(["draw", DARTS_V2, str(file), "-o", str(tmp_path / "two.svg")]) == 0
    assert "Genotype(normal=" in capsys.readouterr().out
    assert (tmp_path / "two.svg").read_text().count("halo") >= 2
    assert main(["draw", DARTS_V2, "341311", "-o", str(tmp_path / "no.svg")]) == 2
    assert "cannot be drawn in one picture" in capsys.readouterr().err
    with pytest.raises(SpaceError, match="normal_concat is missing"):
        find_arch(DARTS_V2.replace("normal_concat=range(2, 6), ", ""))
