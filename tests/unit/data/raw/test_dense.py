from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recnas.data.raw import dense
from recnas.data.raw.dense import model_values, summarise
from recnas.data.raw.transforms import TRANSFORMS
from recnas.data.schema import DenseField


@settings(max_examples=30)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(0, 99))
def test_statistics_do_not_depend_on_how_rows_are_cut(sizes: list[int], seed: int):
    rng = np.random.default_rng(seed)
    rows = rng.normal(1e9, 1e5, (sum(sizes), 3))
    rows[rng.random(rows.shape) < 0.2] = np.nan
    rows[:, 2] = np.nan
    rows[rng.random(len(rows)) < 0.3, 1] = -0.0
    old, dense.BLOCK_ROWS = dense.BLOCK_ROWS, 64
    try:
        whole = summarise([rows], 3)
        assert summarise(np.split(rows, np.cumsum(sizes)[:-1]), 3) == whole
    finally:
        dense.BLOCK_ROWS = old
    for column, found in zip(rows.T[:2], whole):
        known = column[~np.isnan(column)]
        assert (found.rows, found.missing) == (len(rows), len(rows) - len(known))
        assert found.negative == int(((column == 0) & np.signbit(column)).sum())
        if len(known):
            assert found.mean == pytest.approx(known.mean(), rel=1e-9)
            assert found.std == pytest.approx(known.std(), rel=1e-6, abs=1e-6)
            assert (found.min, found.max) == (known.min(), known.max())
    assert (whole[2].missing, whole[2].min, whole[2].mean, whole[2].std) == (len(rows), None, 0.0, 0.0)


def test_a_constant_column_can_be_standardised():
    field = DenseField("x", "none", mean=50.0, std=0.0, standardised=True, fill=2.0)
    assert model_values(np.array([50.0, np.nan]), field).tolist() == [0.0, 2.0]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_of_a_column_is_that_of_its_numbers_and_can_be_undone(name: str):
    """What `prepare` computes, what an export computes, and the raw numbers that an export is checked with."""
    transform = TRANSFORMS[name]
    raw = np.concatenate([np.random.default_rng(0).normal(0, 100, 500), [-7.0, -0.0, 0.0, 1.0, 2.0, 2.5, 3.0, 1e30]])
    column = transform.column(np, raw)
    np.testing.assert_allclose(column, [transform.number(x) for x in raw.tolist()], rtol=1e-15)
    again = transform.column(np, np.array([transform.undo(y) for y in column.tolist()]))
    np.testing.assert_allclose(again, column, rtol=1e-14)
    assert transform.drops_sign == bool((np.signbit(column) & (column == 0))[raw < 0].any())
