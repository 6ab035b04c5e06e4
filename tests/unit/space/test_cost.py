"""Costs against figures worked out by hand, operator by operator, and against published ones."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recnas.data.schema import Schema
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.arch import Block, NasrecArch
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.json import load_arch
from tests.unit.space import literal_cost

SCHEMA = Schema.of_shape(13, [100] * 26)
# One block of fc and efc: the other parts are put in its place or added to it.
PLAIN = Block(("fc",), ("efc",), 32, 48, False, False, (0,), (0,), (0,), (0,))


def parts(block, layernorm, before=(), schema=SCHEMA, **options):
    """Cost of each part of `block` as the last one after the blocks `before`."""
    arch = NasrecArch("nasrec-full", (*before, block))
    cost = count(arch, schema, layernorm=layernorm, **options)
    return {part.name: (part.params, part.macs) for part in cost.blocks[-1].parts}


def test_fc_and_efc():
    off, on = parts(PLAIN, False), parts(PLAIN, True)
    assert off == {"fc": (13 * 32 + 32, 13 * 32), "efc": (26 * 48 + 48, 26 * 48 * 16)}
    assert on == {"fc": (13 * 32 + 64, 13 * 32), "efc": (26 * 48 + 96, 26 * 48 * 16)}


def test_fc_and_efc_keep_their_layer_when_sizes_agree():
    same = replace(PLAIN, dense_dim=32, sparse_dim=48, dense_in=(1,), sparse_in=(1,))
    assert parts(same, False, before=[PLAIN]) == {
        "fc": (32 * 32 + 32, 32 * 32),
        "efc": (48 * 48 + 48, 48 * 48 * 16),
    }


def test_dot():
    # d = 32: 8 rows and the dense vector make 9 * 8 / 2 = 36 products.
    block = replace(PLAIN, dense_ops=("dot",))
    macs = 13 * 16 + 26 * 8 * 16 + 9 * 9 * 16 + 36 * 32
    assert parts(block, False)["dot"] == ((13 * 16 + 16) + (26 * 8 + 8) + (36 * 32 + 32), macs)
    assert parts(block, True)["dot"] == ((13 * 16 + 32) + (26 * 8 + 16) + (36 * 32 + 64), macs)


def test_dot_skips_projections_of_the_right_size_with_their_norms():
    schema = Schema.of_shape(16, [100] * 8)
    block = replace(PLAIN, dense_ops=("dot",))
    assert parts(block, True, schema=schema)["dot"] == (36 * 32 + 64, 9 * 9 * 16 + 36 * 32)


def test_dot_keeps_its_last_norm_when_products_fill_the_width():
    block = replace(PLAIN, dense_ops=("dot",), dense_dim=21)  # 6 rows, 21 products
    assert parts(block, True)["dot"][0] == (13 * 16 + 32) + (26 * 6 + 12) + 42


@pytest.mark.parametrize("ops", ["gate", "sum"])
def test_gate_and_sum_take_the_wider_side(ops):
    block = replace(PLAIN, dense_ops=(ops,), dense_dim=64, left=(0,), right=(1,))
    square = (32 * 32 + 32, 32 * 32) if ops == "gate" else (0, 0)
    bias_on = 64 if ops == "gate" else 0  # gate keeps its biases next to a LayerNorm
    assert parts(block, False, before=[PLAIN])[ops] == (square[0] + 32 * 64 + 64, square[1] + 32 * 64)
    assert parts(block, True, before=[PLAIN])[ops] == (
        square[0] + 32 * 64 + bias_on + 128,
        square[1] + 32 * 64,
    )
    swapped = replace(block, left=(1,), right=(0,))
    assert parts(swapped, True, before=[PLAIN]) == parts(block, True, before=[PLAIN])


@pytest.mark.parametrize("ops", ["gate", "sum"])
def test_gate_and_sum_keep_their_norm_when_no_projection_is_needed(ops):
    block = replace(PLAIN, dense_ops=(ops,), left=(0,), right=(1,))
    square = (32 * 32 + 32, 32 * 32) if ops == "gate" else (0, 0)
    assert parts(block, False, before=[PLAIN])[ops] == square
    assert parts(block, True, before=[PLAIN])[ops] == (square[0] + 64, square[1])


def test_transformer_keeps_its_own_norms_and_biases():
    block = replace(PLAIN, sparse_ops=("transformer",))
    own = (16 * 48 + 48) + 3 * (16 * 16 + 16) + 2 * 32
    macs = 26 * 48 * 16 + 48 * (16 * 48 + 3 * 16 * 16) + 2 * 48 * 48 * 16
    assert parts(block, False)["transformer"] == (26 * 48 + 48 + own, macs)
    assert parts(block, True)["transformer"] == (26 * 48 + 96 + own, macs)


def test_merge():
    block = replace(PLAIN, merge=True)
    assert parts(block, False)["merge"] == (32 * 128 + 128, 32 * 128)
    assert parts(block, True)["merge"] == (32 * 128 + 256, 32 * 128)
    # A dense stream of 128 units is the 8 rows already; nothing is normalised then.
    assert parts(replace(block, dense_dim=128), True)["merge"] == (0, 0)


def test_fm():
    block = replace(PLAIN, fm=True)
    assert parts(block, False)["fm"] == (16 * 32 + 32, 16 * 32)
    assert parts(block, True)["fm"] == (16 * 32 + 64, 16 * 32)
    narrow = replace(block, dense_dim=16)
    assert parts(narrow, True)["fm"] == parts(narrow, False)["fm"] == (0, 0)
    # NASRec leaves a LayerNorm behind there that it never applies.
    assert parts(narrow, True, live_only=False)["fm"] == (32, 0)
    assert parts(narrow, False, live_only=False)["fm"] == (0, 0)


def test_head_and_totals():
    block = replace(PLAIN, merge=True)
    cost = count(NasrecArch("nasrec-full", (PLAIN, block)), SCHEMA)
    assert (cost.head.params, cost.head.macs) == (32 + 56 * 16 + 1, 32 + 56 * 16)
    assert cost.params == sum(b.params for b in cost.blocks) + cost.head.params
    assert cost.macs == sum(b.macs for b in cost.blocks) + cost.head.macs
    assert cost.embedding_params == 2600 * 16
    assert cost.embedding_bytes == 2600 * 16 * 4
    assert cost.total_params == cost.params + cost.embedding_params


def test_dead_parts_cost_nothing_unless_asked():
    dead, last = replace(PLAIN, dense_dim=1024, merge=True), PLAIN
    arch = NasrecArch("nasrec-full", (dead, last))
    cost = count(arch, SCHEMA)
    assert cost.live_blocks == 1
    assert cost.blocks[0].parts == ()
    assert cost.params == count(NasrecArch("nasrec-full", (last,)), SCHEMA).params
    everything = count(arch, SCHEMA, live_only=False)
    assert [part.name for part in everything.blocks[0].parts] == ["fc", "efc", "merge"]
    assert everything.live_blocks == 1


def test_equal_keys_cost_the_same():
    rng = np.random.default_rng(0)
    space = NasrecSpace("nasrec-full", 3, dense_dims=(16,), sparse_dims=(16,))
    by_key = {}
    for _ in range(600):
        arch = space.sample(rng)
        cost = count(arch, SCHEMA)
        assert by_key.setdefault(arch.key, (cost.params, cost.macs)) == (cost.params, cost.macs)
    assert len(by_key) < 600  # otherwise this compared nothing


def test_no_dense_columns_means_one_constant_column():
    block = replace(PLAIN, dense_ops=("gate",))
    without = count(NasrecArch("nasrec-full", (block,)), Schema.of_shape(0, [10] * 4))
    with_one = count(NasrecArch("nasrec-full", (block,)), Schema.of_shape(1, [10] * 4))
    assert without == with_one


def test_other_embedding_widths():
    block = replace(PLAIN, merge=True, fm=True)
    assert parts(block, False, width=4) == {
        "fc": (13 * 32 + 32, 13 * 32),
        "efc": (26 * 48 + 48, 26 * 48 * 4),
        "merge": (0, 0),  # 8 rows of 4 are the 32 dense units
        "fm": (4 * 32 + 32, 4 * 32),
    }


def test_several_operators_add_up():
    block = replace(PLAIN, dense_ops=("fc", "sum"), sparse_ops=("transformer", "efc"))
    both = parts(block, True)
    assert both["fc"] == parts(PLAIN, True)["fc"]
    assert both["efc"] == parts(PLAIN, True)["efc"]
    assert set(both) == {"fc", "sum", "transformer", "efc"}


def test_full_path_has_the_widths_of_the_supernet():
    space = NasrecSpace("nasrec-full")
    cost = count(space.full_path(), SCHEMA)
    last = {part.name: part for part in cost.blocks[-1].parts}
    assert last["fc"].macs == (13 + 1024 * 6) * 1024
    assert last["efc"].macs == (26 + 72 * 6) * 64 * 16
    assert cost.head.macs == 2176
    rng = np.random.default_rng(0)
    assert all(count(space.sample(rng), SCHEMA).params < cost.params for _ in range(200))


SHARED = Path(os.environ.get("RECNAS_SHARED", Path(__file__).parents[3].parent / "shared"))
CRITEO, AVAZU = Schema.of_shape(13, [10] * 26), Schema.of_shape(1, [10] * 23)


@pytest.mark.skipif(not (SHARED / "data/nasrec_best").is_dir(), reason="the published files are not at hand")
@pytest.mark.parametrize(
    ("file", "schema", "params", "params_norm", "million_macs"),
    [
        ("ea_criteo_kaggle_autoctr_best_1shot.json", CRITEO, 1_779_720, 1_784_165, 2.208),
        ("ea_criteo_kaggle_xlarge_best_1shot.json", CRITEO, 2_217_268, 2_222_323, 1.448),
        ("ea_avazu_kaggle_autoctr_best_1shot.json", AVAZU, 2_838_609, 2_844_977, 3.086),
        ("ea_avazu_kaggle_xlarge_best_1shot.json", AVAZU, 3_179_072, 3_187_494, 1.867),
    ],
)
def test_published_architectures(file, schema, params, params_norm, million_macs):
    """Parameters as NASRec's code instantiates them; multiply-adds as it publishes them (live parts)."""
    arch = load_arch(SHARED / "data/nasrec_best" / file)
    assert count(arch, schema, layernorm=False, live_only=False).params == params
    assert count(arch, schema, layernorm=True, live_only=False).params == params_norm
    assert count(arch, schema).macs / 1e6 == pytest.approx(million_macs, abs=0.001)
    assert count(arch, schema).params <= params_norm


@pytest.mark.parametrize("space", ["nasrec-small", "nasrec-full"])
@pytest.mark.parametrize("layernorm", [False, True])
@pytest.mark.parametrize("live_only", [False, True])
def test_counts_equal_those_written_out_by_hand(space, layernorm, live_only):
    rng = np.random.default_rng(5)
    drawn = NasrecSpace(space)
    for _ in range(50):
        arch = drawn.sample_path(rng, ["any-connection", "any-path"][int(rng.integers(2))])
        for schema in (SCHEMA, Schema.of_shape(0, [7] * 3), Schema.of_shape(16, [5] * 16)):
            ours = count(arch, schema, layernorm=layernorm, live_only=live_only)
            literal = literal_cost.count(arch, schema, layernorm=layernorm, live_only=live_only)
            assert (ours.params, ours.macs) == (literal.params, literal.macs)
            assert [b.parts for b in ours.blocks] == [b.parts for b in literal.blocks]
