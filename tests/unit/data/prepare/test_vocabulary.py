from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recnas.data.prepare.vocabulary import count_keys, keep_frequent
from recnas.data.raw.id_table import IdTable


@pytest.mark.parametrize("memory", [10**9, 20_000, 500])
@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=200), st.booleans())
def test_counting_equals_numpy_unique_whatever_the_memory(memory, values, narrow):
    keys = np.array(values, np.uint64)
    keys = keys.astype(np.uint32) if narrow else keys
    pieces = np.array_split(keys, 3)
    found, counts = count_keys(lambda: pieces, len(keys), memory)
    expected, expected_counts = np.unique(keys, return_counts=True)
    assert found.tolist() == expected.tolist()
    assert counts.tolist() == expected_counts.tolist()


def test_frequent_first_equal_counts_by_key_and_the_cap_counts_the_reserved_ids():
    keys, counts = keep_frequent(np.array([5, 6, 7, 8], np.uint64), np.array([2, 9, 2, 1]), min_count=2, cap=4)
    assert keys.tolist() == [6, 5]
    assert counts.tolist() == [9, 2]


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 50), unique=True, max_size=300),
    st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 50)),
)
def test_look_up_equals_a_dictionary(kept, others):
    keys = np.array(kept, np.uint64)
    table = IdTable(keys)
    asked = np.array(kept + others + [0], np.uint64)
    ids = {key: i + 2 for i, key in enumerate(kept)}
    assert table.look_up(asked).tolist() == [ids.get(key, 0) for key in asked.tolist()]
    assert table.rows == len(kept) + 2
    small = asked[asked < 2**32].astype(np.uint32)
    assert table.look_up(small).tolist() == [ids.get(key, 0) for key in small.tolist()]
