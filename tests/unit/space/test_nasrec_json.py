"""Files of both formats: what is read, what is written, and what a damaged file is told."""

import copy
import json
import os
from pathlib import Path

import numpy as np
import pytest

from recnas.errors import SpaceError
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.arch import Block, NasrecArch
from recnas.space.nasrec.json import dump_arch, from_dict, load_arch, parse_arch, to_dict
from recnas.space.nasrec.reference import from_reference, to_reference

FULL_FILE = {
    "micro": [
        {
            "active_nodes": [2, 5],
            "dense_in_dims": 32,
            "sparse_in_dims": 16,
            "dense_sparse_interact": 1,
            "deep_fm": 0,
        },
        {
            "active_nodes": [1, 4],
            "dense_in_dims": 512,
            "sparse_in_dims": 48,
            "dense_sparse_interact": 0,
            "deep_fm": 1,
        },
        {
            "active_nodes": [3, 5],
            "dense_in_dims": 64,
            "sparse_in_dims": 64,
            "dense_sparse_interact": 0,
            "deep_fm": 0,
        },
    ],
    "macro": [
        {"dense_idx": [0], "sparse_idx": [0], "dense_left_idx": [0], "dense_right_idx": [0]},
        {"dense_idx": [1, 0], "sparse_idx": [1], "dense_left_idx": [0], "dense_right_idx": [1]},
        {"dense_idx": [2], "sparse_idx": [2, 0, 1], "dense_left_idx": [2], "dense_right_idx": [1]},
    ],
    "num_blocks": 3,
    "use_layernorm": 1,
    "config": "xlarge",
    "test_loss": 0.45,
}
FULL_ARCH = NasrecArch(
    "nasrec-full",
    (
        Block(("gate",), ("efc",), 32, 16, True, False, (0,), (0,), (0,), (0,)),
        Block(("dot",), ("transformer",), 512, 48, False, True, (0, 1), (1,), (0,), (1,)),
        Block(("sum",), ("efc",), 64, 64, False, False, (2,), (0, 1, 2), (2,), (1,)),
    ),
)
SMALL_FILE = {
    "micro": [
        {
            "active_nodes": [0, 2],
            "dense_in_dims": 16,
            "sparse_in_dims": 16,
            "dense_sparse_interact": 0,
            "deep_fm": 0,
        },
        {
            "active_nodes": [1, 2],
            "dense_in_dims": 1024,
            "sparse_in_dims": 64,
            "dense_sparse_interact": 1,
            "deep_fm": 1,
        },
    ],
    "macro": [
        {"dense_idx": [0], "sparse_idx": [0], "dense_left_idx": [0], "dense_right_idx": [0]},
        {"dense_idx": [0, 1], "sparse_idx": [0], "dense_left_idx": [1], "dense_right_idx": [0]},
    ],
    "num_blocks": 2,
    "use_layernorm": 1,
    "config": "autoctr",
}
OWN_FILE = {
    "format": "recnas/1",
    "space": "nasrec-small",
    "blocks": [
        {
            "dense_ops": ["fc"],
            "sparse_ops": ["efc"],
            "dense_dim": 16,
            "sparse_dim": 32,
            "merge": True,
            "fm": False,
            "dense_in": [0],
            "sparse_in": [0],
            "left": [0],
            "right": [0],
        }
    ],
}


def test_nasrec_format_by_hand():
    assert from_reference(FULL_FILE) == FULL_ARCH
    small = from_reference(SMALL_FILE)
    assert small.space == "nasrec-small"
    # Node 2 is efc in Small, where it would be gate in Full.
    assert [block.dense_ops + block.sparse_ops for block in small.blocks] == [("fc", "efc"), ("dot", "efc")]


def test_own_format_by_hand():
    block = Block(("fc",), ("efc",), 16, 32, True, False, (0,), (0,), (0,), (0,))
    assert from_dict(OWN_FILE) == NasrecArch("nasrec-small", (block,))


def test_writing_nasrec_format_gives_the_same_file_up_to_order():
    written = to_reference(from_reference(FULL_FILE), test_loss=0.45)
    assert written["micro"] == FULL_FILE["micro"]
    assert [{k: sorted(v) for k, v in entry.items()} for entry in FULL_FILE["macro"]] == written["macro"]
    assert {k: v for k, v in written.items() if k not in ("micro", "macro")} == {
        k: v for k, v in FULL_FILE.items() if k not in ("micro", "macro")
    }
    assert "test_loss" not in to_reference(FULL_ARCH)


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
@pytest.mark.parametrize("format", ["recnas", "nasrec"])
@pytest.mark.parametrize("strategy", ["any-connection", "any-path"])
def test_round_trip_through_text(name, format, strategy):
    rng = np.random.default_rng(8)
    space = NasrecSpace(name)
    for _ in range(200):
        arch = space.sample_path(rng, strategy)
        assert parse_arch(dump_arch(arch, format)) == arch


@pytest.mark.parametrize("format", ["recnas", "nasrec"])
def test_files_are_told_apart(tmp_path, format):
    path = tmp_path / "arch.json"
    path.write_text(dump_arch(FULL_ARCH, format), encoding="utf-8")
    assert load_arch(path) == FULL_ARCH
    assert load_arch(str(path)) == FULL_ARCH


def test_written_text_has_one_block_per_line():
    lines = dump_arch(FULL_ARCH).splitlines()
    assert sum('"dense_ops"' in line for line in lines) == 3
    assert max(map(len, lines)) < 250


def damaged(file, *path, value=None, remove=False):
    data = copy.deepcopy(file)
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON .line 1"),
        ("[" * 3000, "not JSON .it is nested too deep"),
        ('{"a":' * 3000, "not JSON .it is nested too deep"),
        ("9" * 5000, "not JSON .Exceeds the limit"),
        ("[NaN]", "not JSON .NaN is no number"),
        ("[1, 2]", "expected an object"),
        ("{}", "field 'format' is missing"),
        (damaged(OWN_FILE, "format", value="recnas/9"), "format is 'recnas/9'"),
        (damaged(OWN_FILE, "space", value="nasrec-smal"), "did you mean 'nasrec-small'"),
        (damaged(OWN_FILE, "blocks", value=[]), "one entry per block"),
        (damaged(OWN_FILE, "blocks", 0, value=3), "block 1: expected an object"),
        (damaged(OWN_FILE, "blocks", 0, "dense_dims", value=16), "block 1: unknown field 'dense_dims'"),
        (damaged(OWN_FILE, "blocks", 0, "left", remove=True), "block 1: field 'left' is missing"),
        (damaged(OWN_FILE, "blocks", 0, "dense_ops", value=["fx"]), "block 1: dense_ops .*'fx'\n.*mean 'fc'"),
        (damaged(OWN_FILE, "blocks", 0, "dense_ops", value=["gate"]), "block 1: dense_ops has gate"),
        (damaged(OWN_FILE, "blocks", 0, "dense_ops", value=["fc", "fc"]), "each operator once"),
        (damaged(OWN_FILE, "blocks", 0, "dense_ops", value="fc"), "block 1: dense_ops is 'fc'"),
        (damaged(OWN_FILE, "blocks", 0, "merge", value=2), "block 1: merge is 2"),
        (damaged(OWN_FILE, "blocks", 0, "merge", value="yes"), "block 1: merge is 'yes'"),
        (damaged(OWN_FILE, "blocks", 0, "dense_dim", value="16"), "block 1: dense_dim is '16'"),
        (damaged(OWN_FILE, "blocks", 0, "dense_dim", value=17), "block 1: dense_dim is 17"),
        (damaged(OWN_FILE, "blocks", 0, "dense_in", value=[1]), "block 1: dense_in reads input 1"),
        (damaged(OWN_FILE, "blocks", 0, "dense_in", value=[0, 0]), "block 1: dense_in .*named twice"),
        (damaged(OWN_FILE, "blocks", 0, "dense_in", value=[]), "block 1: dense_in is"),
        (damaged(OWN_FILE, "blocks", 0, "dense_in", value=0), "block 1: dense_in is 0"),
        (damaged(FULL_FILE, "config", value="xlarg"), "did you mean 'xlarge'"),
        (damaged(FULL_FILE, "num_blocks", value=7), "num_blocks is 7, but micro has 3"),
        (damaged(FULL_FILE, "macro", remove=True), "field 'macro' is missing"),
        (damaged(FULL_FILE, "micros", value=1), "unknown field 'micros'"),
        (damaged(FULL_FILE, "macro", 2, "dense_idx", value=[3]), "block 3: dense_in reads input 3"),
        (damaged(FULL_FILE, "macro", 1, "sparse_idx", value=[1, 1]), "block 2: sparse_idx .*named twice"),
        (damaged(FULL_FILE, "macro", 1, "dense_left", value=[1]), r"block 2 .macro.1.*'dense_left'"),
        (damaged(FULL_FILE, "micro", 1, "active_nodes", value=[1, 6]), "block 2: active_nodes .*\n.*5 efc"),
        (damaged(FULL_FILE, "micro", 1, "active_nodes", value=[1]), "block 2: active_nodes .sparse part. is"),
        (damaged(FULL_FILE, "micro", 1, "deep_fm", value=None), "block 2: deep_fm is None"),
        (damaged(SMALL_FILE, "micro", 1, "active_nodes", value=[1, 5]), "block 2: active_nodes"),
    ],
)
def test_damaged_files(text, message):
    with pytest.raises(SpaceError, match=message):
        parse_arch(text)


def test_a_misspelt_field_gets_the_missing_one_suggested():
    entry = {("dense_idx" if k == "dense_in" else k): v for k, v in OWN_FILE["blocks"][0].items()}
    with pytest.raises(SpaceError, match="did you mean 'dense_in'"):
        from_dict({**OWN_FILE, "blocks": [entry]})


def test_messages_name_the_file(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(SpaceError, match=r"broken\.json: the architecture: field 'format'"):
        load_arch(path)
    with pytest.raises(SpaceError, match=r"cannot read .*absent\.json"):
        load_arch(tmp_path / "absent.json")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpaceError, match=r"cannot read .*broken\.json"):
        load_arch(path)


def test_unknown_format():
    with pytest.raises(SpaceError, match="did you mean 'nasrec'"):
        dump_arch(FULL_ARCH, format="nasrecs")


def test_nasrec_format_knows_only_its_two_spaces():
    with pytest.raises(SpaceError, match="no name for the space 'mine'"):
        to_reference(NasrecArch("mine", FULL_ARCH.blocks))
    with pytest.raises(SpaceError, match="block 1: dense_ops has gate"):
        to_reference(NasrecArch("nasrec-small", FULL_ARCH.blocks))


def test_a_space_checks_what_it_reads():
    space = NasrecSpace("nasrec-full", blocks=3)
    assert space.from_dict(to_dict(FULL_ARCH)) == FULL_ARCH
    with pytest.raises(SpaceError, match="3 blocks where the space has 7"):
        NasrecSpace("nasrec-full").from_dict(to_dict(FULL_ARCH))
    own_widths = NasrecSpace("nasrec-full", blocks=2, dense_dims=(24,))
    arch = own_widths.sample(np.random.default_rng(0))
    assert own_widths.from_dict(own_widths.to_dict(arch)) == arch


PUBLISHED = Path(os.environ.get("RECNAS_SHARED", Path(__file__).parents[3].parent / "shared")) / "data/nasrec_best"


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published architectures are not at hand")
def test_published_files_load_and_come_back():
    files = sorted(PUBLISHED.glob("*.json"))
    assert files
    for file in files:
        arch = load_arch(file)
        NasrecSpace(arch.space).validate(arch)
        assert parse_arch(dump_arch(arch, "nasrec")) == arch
