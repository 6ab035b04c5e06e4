"""Networks with one logit per label: each is what a network of that label alone would compute with its part of the weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from recnas.baselines.base import Baseline, InputShape
from recnas.baselines.zoo import OF_SEVERAL_LABELS, ZOO, build, check_fits, every_fitting
from recnas.errors import ConfigError, SpaceError
from recnas.model.nasrec.subnet import Subnet, new_subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.layers import NetShape
from recnas.space.plus.space import PlusSpace
from recnas.train.loop import FixedNetwork
from recnas.train.start import click_logit, start_at

ONE, TWO = InputShape(3, 5, 8), InputShape(3, 5, 8, labels=2)


def settings_of(name: str) -> dict[str, object]:
    small = {"hidden": (12, 8), "fusion_heads": 2}
    return {key: value for key, value in small.items() if key in ZOO[name].settings.model_fields}


def given(model: Baseline, rows: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    dense = torch.randn(rows, 3, generator=generator, dtype=torch.float64)
    return dense, torch.randn(rows, 5, model.table_width(8), generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("name", ZOO)
def test_each_logit_is_that_of_a_model_of_its_label(name):
    both = build(name, TWO, settings_of(name), seed=3).double().eval()
    with torch.no_grad():
        for parameter in both.parameters():  # biases too must tell the labels apart; factors stay as they start
            if not (parameter.dim() == 1 and bool((parameter == 1).all())):
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(parameter.numel())))
    dense, embedded = given(both)
    logits = both(dense, embedded)
    assert logits.shape == (6, 2)
    assert both.output_bias.shape == (2,)
    for label in (0, 1):
        alone = build(name, ONE, settings_of(name), seed=4).double().eval()
        mine, whole = dict(alone.named_parameters()), dict(both.named_parameters())
        with torch.no_grad():
            for key, parameter in mine.items():
                source = whole[key]
                part = source if source.shape == parameter.shape else source[label : label + 1]
                parameter.copy_(part.reshape(parameter.shape))
        own = embedded
        if alone.first_order:
            vectors = both.table_width(8) - 2
            own = torch.cat((embedded[..., :vectors], embedded[..., vectors + label : vectors + label + 1]), -1)
        torch.testing.assert_close(alone(dense, own), logits[:, label])


@pytest.mark.parametrize("space", [NasrecSpace("nasrec-small"), PlusSpace(blocks=3)], ids=["nasrec", "plus"])
def test_a_searched_network_has_a_unit_per_label(space):
    rng = np.random.default_rng(5)
    shape = NetShape(3, 5, width=8, labels=2)
    alone = NetShape(3, 5, width=8)
    supernet = Supernet(
        space, space.slots(shape) if hasattr(space, "slots") else shape, torch.Generator().manual_seed(0)
    )
    seen = 0
    for _ in range(12):
        arch = space.sample(rng)
        network = new_subnet(arch, shape, seed=1).double().eval()
        width = network.table_width(8)
        dense = torch.from_numpy(rng.normal(size=(4, 3)))
        embedded = torch.from_numpy(rng.normal(size=(4, 5, width)))
        logits = network(dense, embedded)
        assert logits.shape == (4, 2)
        assert network.output_bias.shape == (2,)
        # The same weights in a supernet's candidate.
        if not any(getattr(block, "norm", "") == "batch" for block in arch.blocks):  # candidates keep no statistics
            subnet = Subnet(arch, supernet.shape).copy_from(supernet).eval()
            inside = supernet.candidate(arch)(dense.float(), _padded(embedded.float(), supernet, arch))
            torch.testing.assert_close(subnet(dense.float(), embedded.float()), inside, rtol=1e-4, atol=1e-5)
        if any(block.dense_dim == 1 for block in network.plan.arch.blocks):
            continue  # a unit that is added as it is to one label has factors where there are two
        single = Subnet(arch, alone).double().eval()
        for label in (0, 1):
            with torch.no_grad():
                for key, parameter in single.named_parameters():
                    source = network.get_parameter(key)
                    parameter.copy_(source if source.shape == parameter.shape else source[label : label + 1])
            vectors = width - 2 * arch.first_order
            mine = torch.cat((embedded[..., :vectors], embedded[..., vectors + label : vectors + label + 1]), -1)
            torch.testing.assert_close(single(dense, mine if arch.first_order else embedded), logits[:, label])
        seen += 1
    assert seen >= 6


def _padded(rows: torch.Tensor, supernet: Supernet, arch) -> torch.Tensor:
    """Table rows of a network by itself as those of a supernet, which has every column."""
    whole = torch.zeros(*rows.shape[:2], supernet.table_width(8))
    vectors = rows.shape[2] - 2 * arch.first_order
    whole[..., :vectors] = rows[..., :vectors]
    if arch.first_order:
        whole[..., 8:] = rows[..., vectors:]
    return whole


def test_esmm_by_hand():
    """Two perceptrons of one unit each: p(click), and p(click) times p(conversion given click)."""
    model = build("esmm", InputShape(1, 1, 2, labels=2), {"hidden": (1,)}).double().eval()
    values = {
        "towers.0.layers.0.weight": [[0.5, -1.0, 2.0]], "towers.0.layers.0.bias": [0.1],
        "towers.1.layers.0.weight": [[1.0, 1.0, -0.5]], "towers.1.layers.0.bias": [0.2],
        "heads.0.weight": [[0.7]], "heads.1.weight": [[-1.5]], "bias": [-0.4, 0.9],
    }  # fmt: skip
    assert values.keys() == dict(model.named_parameters()).keys()
    with torch.no_grad():
        for key, value in values.items():
            model.get_parameter(key).copy_(torch.tensor(value, dtype=torch.float64))
    dense, embedded = torch.tensor([[0.3]], dtype=torch.float64), torch.tensor([[[1.2, -0.4]]], dtype=torch.float64)
    # x = (1.2, -0.4, 0.3): 0.5 * 1.2 + 0.4 + 0.6 + 0.1 = 1.7 and 1.2 - 0.4 - 0.15 + 0.2 = 0.85
    click = 1 / (1 + math.exp(-(0.7 * 1.7 - 0.4)))
    conversion = 1 / (1 + math.exp(-(-1.5 * 0.85 + 0.9)))
    found = model(dense, embedded).sigmoid()[0].tolist()
    assert found == pytest.approx([click, click * conversion], rel=1e-12)
    assert found == pytest.approx([0.68783133, 0.28017667], abs=1e-8)


def test_esmm_is_exact_far_out_and_never_says_more_conversions_than_clicks():
    model = build("esmm", TWO, {"hidden": (8,)}, seed=1).eval()
    with torch.no_grad():
        for bias in ((-60.0, -50.0), (60.0, 70.0), (-80.0, 80.0)):
            model.bias.copy_(torch.tensor(bias))
            dense, embedded = (x.float() for x in given(model, 50))
            logits = model(dense, embedded)
            assert logits.isfinite().all()
            assert (logits[:, 1] <= logits[:, 0]).all()


@pytest.mark.parametrize(("name", "near"), [("esmm", 0.15), ("dnn", 1e-4), ("fm", 1e-4)])
def test_every_label_starts_at_its_own_rate(name, near):
    """In logits exactly, as everywhere; the conversion of esmm is a product, which one step of its bias brings near."""
    rates = (0.2, 0.03)
    network = build(name, TWO, {} if name == "fm" else {"hidden": (16,)}, seed=2)
    dense, embedded = (x.float() for x in given(network, 400))
    start_at(FixedNetwork(network), [click_logit(rate, 10_000) for rate in rates], 0.1 * dense, 0.1 * embedded)
    said = network.eval()(0.1 * dense, 0.1 * embedded).mean(0)
    assert said.tolist() == pytest.approx([math.log(rate / (1 - rate)) for rate in rates], abs=near)


def test_models_of_several_labels_are_offered_where_they_fit():
    assert "esmm" in OF_SEVERAL_LABELS
    assert "esmm" not in every_fitting(3, 1)
    assert every_fitting(3, 2) == [*ZOO, "esmm"]
    with pytest.raises(ConfigError, match="model of 2 labels, and this data set has 1"):
        check_fits("esmm", 3)
    with pytest.raises(ConfigError, match="has 3 labels"):
        build("esmm", InputShape(1, 2, 4, labels=3))


def test_esmm_is_no_point_of_the_space():
    from recnas.baselines.encoded import encode

    with pytest.raises((SpaceError, ConfigError), match="esmm"):
        encode("esmm", TWO)
