import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from recnas.cli.main import main
from recnas.errors import RecnasError
from recnas.report.arch_svg import Wire, draw_nasrec, wires
from recnas.report.draw import describe_differences, draw, find_arch, parse
from recnas.space.nasbench201 import Nb201Space
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.json import dump_arch, parse_arch
from recnas.space.nasrec.liveness import live_parts
from tests.unit.report.small_runs import arch, write_search

SVG = "{http://www.w3.org/2000/svg}"


def titles(text: str) -> list[str]:
    return [found.text for found in ET.fromstring(text).iter(f"{SVG}title")]


def test_wires_by_hand():
    found = wires(parse_arch(json.dumps(arch())))
    # Block 1 is fc on the inputs; block 2 is dot on block 1, with the sparse inputs and block 1's sparse rows.
    assert found == {
        Wire("dense", 0, 1): True, Wire("sparse", 0, 1): True, Wire("dense", 1, 2): True, Wire("dot", 0, 2): True, Wire("dot", 1, 2): True,
        Wire("sparse", 0, 2): True, Wire("sparse", 1, 2): True, Wire("dense", 2, 3): True, Wire("sparse", 2, 3): True,
    }  # fmt: skip


def test_dead_parts_are_said_and_drawn_to_be_dead():
    described = arch(blocks=3)
    described["blocks"][2] = described["blocks"][2] | {
        "dense_in": [1],
        "sparse_in": [1],
    }  # nobody reads block 2
    text = draw_nasrec([("x", parse_arch(json.dumps(described)))])
    dead = [title for title in titles(text) if title.endswith("not in use")]
    assert "block 2, dense: fc, 64 wide, not in use" in dead
    assert "block 2, sparse: efc, 16 rows, not in use" in dead
    assert not [title for title in dead if title.startswith(("block 1", "block 3"))]
    assert "3 blocks, 2 in use" in text


def test_bridges():
    described = arch(fm=True)
    described["blocks"][0]["merge"] = True
    found = titles(draw_nasrec([("x", parse_arch(json.dumps(described)))]))
    assert "block 2: fm" in found
    assert "block 1: merge" in found
    assert "block 2 reads block 1 (dot): products of sparse rows" in found


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
def test_every_architecture_can_be_drawn(name: str):
    space, rng = NasrecSpace(name, blocks=7), np.random.default_rng(0)
    for _ in range(30):
        one, other = space.sample(rng), space.sample(rng)
        text = draw_nasrec([("one", one), ("other", other)])
        root = ET.fromstring(text)
        _, _, width, height = map(float, root.get("viewBox").split())
        for box in root.iter(f"{SVG}rect"):
            assert 0 <= float(box.get("x")) <= width - float(box.get("width"))
            assert 0 <= float(box.get("y")) <= height - float(box.get("height"))
        dead = sum(not part.dense for arch in (one, other) for part in live_parts(arch))
        assert len([t for t in titles(text) if ", dense: " in t and t.endswith("not in use")]) == dead


def test_two_alike_have_no_marks_and_one_change_has_some():
    same = draw([parse(json.dumps(arch()), "a"), parse(json.dumps(arch()), "b")])
    assert same.count("changed") == 1  # the legend's
    one = draw([parse(json.dumps(arch()), "a"), parse(json.dumps(arch(fm=True)), "b")])
    assert one.count("changed") == 3  # fm of both blocks of b
    assert describe_differences([parse(json.dumps(arch()), "a"), parse(json.dumps(arch(fm=True)), "b")]) == [
        "block 1: fm off to on",
        "block 2: fm off to on",
    ]


def test_cells(tmp_path: Path):
    text = "|nor_conv_3x3~0|+|avg_pool_3x3~0|skip_connect~1|+|nor_conv_3x3~0|skip_connect~1|skip_connect~2|"
    file = tmp_path / "cell.json"
    file.write_text(json.dumps(Nb201Space().to_dict(find_arch(text).arch)))
    plain = tmp_path / "cell.txt"
    plain.write_text(text + "\n")
    assert find_arch(text).arch == find_arch("341311").arch == find_arch(str(file)).arch == find_arch(str(plain)).arch
    drawn = titles(draw([find_arch(text)]))
    assert "0 to 2: avg_pool_3x3" in drawn
    two = draw([find_arch("341311"), find_arch("341021")])
    assert two.count('class="halo"') == 4  # two edges, in both pictures
    # Node 1 is reached, but nothing leaves it: its edge is drawn as not in use.
    assert "0 to 1: nor_conv_3x3, not in use" in titles(draw([find_arch("300300")]))


def test_published_format_and_candidates_of_a_run(tmp_path: Path):
    reference = tmp_path / "ref.json"
    sampled = NasrecSpace("nasrec-full", blocks=7).sample(np.random.default_rng(1))
    reference.write_text(dump_arch(sampled, "nasrec"))
    assert find_arch(str(reference)).arch.key == sampled.key
    run = write_search(tmp_path / "first")
    assert find_arch(f"{run}:best").arch.blocks[0].dense_dim == 128
    assert find_arch(f"{run}:5").arch.blocks[0].fm
    half = find_arch(str(write_search(tmp_path / "half", finished=False)) + ":best")
    assert half.label == "half, best of 5 candidates so far"


@pytest.mark.parametrize(
    "name", ["nothing.json", "{run}", "{run}:99", "{run}:worst", "{empty}:best", "|broken|", "nowhere:best"]
)
def test_mistakes_are_explained(tmp_path: Path, name: str):
    run, empty = write_search(tmp_path / "run"), write_search(tmp_path / "empty", lines=[], finished=False)
    with pytest.raises(RecnasError):
        find_arch(name.format(run=run, empty=empty))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = write_search(tmp_path / "first")
    assert main(["draw", f"{run}:4", f"{run}:best", "-o", str(tmp_path / "two.svg")]) == 0
    assert "block 1: dense_dim 64 to 128" in capsys.readouterr().out
    assert ET.parse(tmp_path / "two.svg").getroot().tag == f"{SVG}svg"
    assert main(["draw", "341311", f"{run}:best", "-o", str(tmp_path / "no.svg")]) == 2
    assert "cannot be drawn in one picture" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["best.png", "best.pdf", "best"])
def test_only_svg_is_written(tmp_path: Path, name: str, capsys):
    assert main(["draw", "341311", "-o", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert f"a drawing is written as .svg, not as {name!r}" in said
    assert f"-o {tmp_path}/best.svg" in said
    assert not list(tmp_path.iterdir())
