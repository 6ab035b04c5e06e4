"""Products by oneDNN equal torch's own for every layout that networks and supernets have."""

from __future__ import annotations

import pytest
import torch

from recnas.model import products

N, K, OUT = 512, 160, 96  # large enough for `is_large`

LAYOUTS = {
    "contiguous": lambda rows, columns: torch.randn(rows, columns),
    "transposed": lambda rows, columns: torch.randn(columns, rows).t(),
    "corner of a larger one": lambda rows, columns: torch.randn(rows + 40, columns + 33)[:rows, :columns],
    "part of a larger one": lambda rows, columns: torch.randn(rows + 9, columns + 9)[5 : rows + 5, 3 : columns + 3],
    "every second column": lambda rows, columns: torch.randn(rows, 2 * columns)[:, ::2],
    "expanded": lambda rows, columns: torch.randn(rows, 1).expand(rows, columns),
}


@pytest.fixture
def with_onednn(monkeypatch):
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        pytest.skip("this build of torch has no oneDNN")
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("of_weight", LAYOUTS)
@pytest.mark.parametrize("of_x", LAYOUTS)
def test_a_large_product_of_any_layout_equals_torchs_own(with_onednn, of_x: str, of_weight: str, bias: bool):
    torch.manual_seed(0)
    x, weight = LAYOUTS[of_x](N, K), LAYOUTS[of_weight](OUT, K)
    added = torch.randn(OUT) if bias else None
    assert products.is_large(x, weight)
    with torch.no_grad():
        ours = products.product(x, weight, added)
    wanted = torch.nn.functional.linear(x.double(), weight.double(), None if added is None else added.double())
    assert torch.allclose(ours.double(), wanted, rtol=1e-4, atol=1e-3)


def test_a_slice_is_not_left_to_the_slow_kernel(with_onednn, monkeypatch):
    """oneDNN takes a part of a larger matrix a thousand times slower: it must be given a copy."""
    given = []
    op = torch.ops.mkldnn._linear_pointwise
    monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", lambda x, w, *rest: given.append(w) or op(x, w, *rest))
    with torch.no_grad():
        for of_weight in LAYOUTS.values():
            products.product(torch.randn(N, K), of_weight(OUT, K))
    assert all(one.is_contiguous() or one.t().is_contiguous() for one in given)
    assert len(given) == len(LAYOUTS)


def test_small_products_and_other_types_stay_with_torch(with_onednn):
    x, weight = torch.randn(N, K), torch.randn(OUT, K)
    assert not products.is_large(x[:8], weight)
    assert not products.is_large(x.double(), weight.double())
    assert not products.is_large(x.to("meta"), weight.to("meta"))
    assert not products.is_large(torch.randn(100_000, K), torch.randn(8, K))
