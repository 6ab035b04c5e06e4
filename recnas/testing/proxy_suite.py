"""Tests every proxy, and every network that proxies score, should pass; inherit them in your own test file.

    class TestMyProxy(ProxyConformance):
        scale_degree = 1.0                       # twice the weights, twice the value

        def proxy(self):
            return MyProxy()

    class TestMyNetwork(ScoredNetworkConformance):
        def case(self):
            return my_network, my_batch

The proxy's tests run on tiny networks of this file, sound ones and ones with a flaw.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from recnas.model import observe
from recnas.proxies.base import Proxy, Score
from recnas.proxies.engine import score
from recnas.proxies.gram import factors
from recnas.proxies.network import ScoredNetwork, ScoringBatch, sample_losses
from recnas.proxies.registry import get_proxies

Flaw = Literal["constant logits", "dead relu", "equal examples"]


class TinyNetwork:
    """Two hidden layers of ReLUs on `[B, 6]`, to clicks `[B]` (classes None) or to `[B, classes]`.

    Args:
        classes: None for clicks.
        plain: no biases and no normalisation, so that the logits are homogeneous in the weights.
        flaw: "constant logits" cuts the path from the inputs, "dead relu" switches off the last hidden layer.
    """

    def __init__(
        self,
        classes: int | None = 3,
        plain: bool = False,
        flaw: Flaw | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        generator = torch.Generator().manual_seed(3)
        sizes = (6, 32, 16, classes or 1)
        self.plain, self.flaw = plain, flaw
        self.params: dict[str, Tensor] = {}
        # Cut from one storage, as candidates are cut from a supernet.
        self.storage = torch.randn(2000, generator=generator, dtype=torch.float64).to(dtype)
        at = 0
        for i, (k, n) in enumerate(pairwise(sizes)):
            self.params[f"{i}.weight"] = self.storage[at : at + n * k].view(n, k).mul_(k**-0.5)
            at += n * k
            if not plain:
                self.params[f"{i}.bias"] = self.storage[at : at + n]
                at += n
        if not plain:
            self.params["norm.weight"] = self.storage[at : at + 32].abs_().add_(0.5)
            self.params["norm.bias"] = self.storage[at + 32 : at + 64]
        if flaw == "dead relu":
            self.params["1.bias"].fill_(-1e3)
        self.params = {name: leaf.detach().requires_grad_() for name, leaf in self.params.items()}

    def scaled(self, factor: float) -> TinyNetwork:
        """A copy with every parameter multiplied."""
        twin = TinyNetwork(None, self.plain, self.flaw)
        twin.params = {name: (leaf.detach() * factor).requires_grad_() for name, leaf in self.params.items()}
        return twin

    def forward(self, params: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        (x,) = inputs
        if self.flaw == "constant logits":
            x = x * 0
        for i in range(3):
            weight, bias = params[f"{i}.weight"], params.get(f"{i}.bias")
            if i == 2:
                observe.features(x)
            y = F.linear(x, weight, bias)
            observe.linear(weight, x, y, bias)
            x = y
            if i == 0 and not self.plain and not observe.norms_are_off():
                observe.norm(x, (0,))
                x = F.layer_norm(x, x.shape[1:], params["norm.weight"], params["norm.bias"])
            if i < 2:
                observe.relu(x)
                x = torch.relu(x)
        return x.squeeze(1) if x.shape[1] == 1 else x


def tiny_batches(network: TinyNetwork, count: int = 4, m: int = 8) -> list[ScoringBatch]:
    """Batches for a `TinyNetwork`; all of them alike if its flaw is "equal examples"."""
    generator = torch.Generator().manual_seed(4)
    weight = network.params["2.weight"]
    found = []
    for _ in range(count):
        x = torch.randn(m, 6, generator=generator, dtype=torch.float64).to(weight.dtype)
        labels = torch.arange(m) % weight.shape[0] if weight.shape[0] > 1 else torch.arange(m, dtype=weight.dtype) % 2
        if network.flaw == "equal examples":
            x, labels = torch.ones_like(x), torch.zeros_like(labels)
        found.append(ScoringBatch((x,), labels))
    return found


class ProxyConformance:
    """Override `proxy`; the rest says what this proxy promises beyond the basics."""

    batch_order_matters = True  # False: the same score whichever batch comes first
    scale_degree: float | None = None  # value(s * theta) = s ** degree * value(theta) without biases and norms
    flaws: tuple[Flaw, ...] = ("constant logits",)  # those that must give `worst` and a reason
    companions: ClassVar[tuple[str, ...]] = (
        "snip",
        "fisher",
        "ntk_cond",
        "jacob_cov",
        "naswot",
        "zico",
        "grasp",
        "zen",
    )

    def proxy(self) -> Proxy:
        raise NotImplementedError("return the proxy under test from `proxy()`")

    def sound(self) -> list[TinyNetwork]:
        """Networks this proxy should score."""
        return [
            TinyNetwork(3),
            TinyNetwork(None),
            TinyNetwork(3, plain=True),
            TinyNetwork(None, dtype=torch.float32),
        ]

    def value(self, network: TinyNetwork, batches: Sequence[ScoringBatch] | None = None) -> Score:
        proxy = self.proxy()
        return score(network, batches or tiny_batches(network), [proxy])[proxy.name]

    def test_has_a_name_and_a_finite_worst_in_the_bad_direction(self) -> None:
        proxy = self.proxy()
        assert isinstance(proxy.name, str)
        assert proxy.name
        assert math.isfinite(proxy.worst)
        for network in self.sound():
            value = self.value(network).value
            better = value >= proxy.worst if proxy.higher_is_better else value <= proxy.worst
            assert better, f"{value} is worse than the documented worst {proxy.worst}"

    def test_scores_are_finite_or_have_a_reason(self) -> None:
        for network in self.sound():
            found = self.value(network)
            assert all(map(math.isfinite, (found.value, *found.terms.values())))
            assert found.reason is None, f"a sound network was called degenerate: {found.reason}"

    def test_leaves_no_trace(self) -> None:
        for mode in (True, False):
            for network in self.sound():
                batches = tiny_batches(network)
                before = _snapshot(network, batches)
                leaves = dict(network.params)
                random = torch.get_rng_state()
                with torch.set_grad_enabled(mode):
                    self.value(network, batches)
                    assert torch.is_grad_enabled() == mode, "the gradient mode changed"
                assert torch.equal(torch.get_rng_state(), random), "random numbers were drawn from the global generator"
                assert all(leaf is leaves[name] for name, leaf in network.params.items()), "parameters were replaced"
                assert all(leaf.grad is None for leaf in leaves.values()), "gradients were left behind"
                assert all(leaf.requires_grad for leaf in leaves.values())
                assert not any(x.requires_grad for batch in batches for x in batch.inputs)
                after = _snapshot(network, batches)
                assert all(torch.equal(a, b) for a, b in zip(before, after)), "weights or data changed"
                assert not observe.listening()
                assert not observe.norms_are_off()

    def test_is_deterministic(self) -> None:
        for network in self.sound():
            first = self.value(network)
            with torch.random.fork_rng(), torch.no_grad():
                torch.manual_seed(99)
                assert self.value(network) == first

    def test_does_not_depend_on_the_other_proxies(self) -> None:
        proxy = self.proxy()
        others = [p for p in get_proxies(self.companions) if p.name != proxy.name]
        for network in self.sound():
            alone = self.value(network)
            for order in ([proxy, *others], [*others, proxy]):
                assert score(network, tiny_batches(network), order)[proxy.name] == alone

    def test_survives_pickling(self) -> None:
        network = TinyNetwork()
        proxy = pickle.loads(pickle.dumps(self.proxy()))
        assert score(network, tiny_batches(network), [proxy])[proxy.name] == self.value(network)

    def test_order_of_examples_does_not_matter(self) -> None:
        for network in self.sound()[:2]:
            batches = tiny_batches(network)
            other = [ScoringBatch(tuple(x.flip(0) for x in batch.inputs), batch.labels.flip(0)) for batch in batches]
            _assert_close(self.value(network, batches).value, self.value(network, other).value)

    def test_order_of_batches(self) -> None:
        if self.batch_order_matters:
            return
        for network in self.sound()[:2]:
            batches = tiny_batches(network)
            _assert_close(self.value(network, batches).value, self.value(network, batches[::-1]).value)

    def test_scale_of_the_weights(self) -> None:
        if self.scale_degree is None:
            return
        network = TinyNetwork(3, plain=True)
        for factor in (0.5, 4.0):
            expected = self.value(network).value * factor**self.scale_degree
            _assert_close(self.value(network.scaled(factor)).value, expected)

    def test_flawed_networks_never_give_nan(self) -> None:
        flaws: tuple[Flaw, ...] = ("constant logits", "dead relu", "equal examples")
        proxy = self.proxy()
        for flaw in flaws:
            for classes in (None, 3):
                found = self.value(TinyNetwork(classes, flaw=flaw))
                assert math.isfinite(found.value)
                if found.reason is not None or flaw in self.flaws:
                    assert found.value == proxy.worst, f"{flaw}: {found}"
                    assert found.reason, f"{flaw}: no reason given"


class ScoredNetworkConformance:
    """Override `case`: a network in float64 if it can be, and a batch of it with at least four examples."""

    tolerance = 1e-8

    def case(self) -> tuple[ScoredNetwork, ScoringBatch]:
        raise NotImplementedError("return a network and a batch from `case()`")

    def test_parameters_are_leaves_with_gradients(self) -> None:
        network, _ = self.case()
        for name, leaf in network.params.items():
            assert leaf.is_leaf, name
            assert leaf.requires_grad, name
        groups: Mapping[str, str] | None = getattr(network, "groups", None)
        assert groups is None or set(groups) >= set(network.params), "`groups` must name every parameter"

    def test_logits_fit_the_labels(self) -> None:
        network, batch = self.case()
        logits = network.forward(network.params, batch.inputs)
        assert logits.shape[0] == len(batch)
        assert logits.dim() == (1 if batch.labels.is_floating_point() else 2)

    def test_forward_is_pure(self) -> None:
        network, batch = self.case()
        before = _snapshot(network, [batch])
        random = torch.get_rng_state()
        first, second = (network.forward(network.params, batch.inputs) for _ in range(2))
        assert torch.equal(first, second)
        assert torch.equal(torch.get_rng_state(), random), "forward draws random numbers"
        assert all(torch.equal(a, b) for a, b in zip(before, _snapshot(network, [batch])))

    def test_forward_reads_the_parameters_it_is_given(self) -> None:
        network, batch = self.case()
        zeros = {name: torch.zeros_like(leaf) for name, leaf in network.params.items()}
        with torch.no_grad():
            assert not network.forward(zeros, batch.inputs).any(), "parameters that are not in `params` are used"

    def test_listening_changes_nothing(self) -> None:
        network, batch = self.case()
        with observe.listen(observe.Observed()):
            watched = network.forward(network.params, batch.inputs)
        torch.testing.assert_close(
            watched, network.forward(network.params, batch.inputs), rtol=self.tolerance, atol=self.tolerance
        )

    def test_reported_layers_explain_every_weights_gradient(self) -> None:
        """What a layer read times what comes back to it, summed over examples, is the gradient of its weight."""
        network, batch = self.case()
        observed = observe.Observed()
        with observe.listen(observed):
            loss = sample_losses(network.forward(network.params, batch.inputs), batch.labels).mean()
        outputs = {id(use.output): use.output for use in observed.layers}
        back = torch.autograd.grad(loss, list(outputs.values()), retain_graph=True, allow_unused=True)
        at_output = {key: g for key, g in zip(outputs, back) if g is not None}
        for name, leaf in network.params.items():
            if leaf.dim() < 2:
                continue
            (expected,) = torch.autograd.grad(loss, leaf, retain_graph=True, allow_unused=True)
            uses = [use for use in observed.layers if use.weight is leaf and id(use.output) in at_output]
            if expected is None or not expected.any():
                continue
            assert uses, f"no use of {name} was reported"
            a, d = factors(uses, at_output)
            found = torch.einsum("mgnt,mgkt->gnk", d, a).reshape(leaf.shape)
            torch.testing.assert_close(
                found,
                expected,
                rtol=self.tolerance,
                atol=self.tolerance * float(expected.abs().max()),
                msg=name,
            )

    def test_features_are_reported_and_norms_can_be_left_out(self) -> None:
        network, batch = self.case()
        with observe.listen(observe.Observed()) as observed:
            network.forward(network.params, batch.inputs)
        assert observed.features is not None, "call observe.features on what the classifier reads"
        with observe.listen(observe.Observed()) as observed, observe.without_norms():
            network.forward(network.params, batch.inputs)
        assert not observed.norms, "normalisations ran although they are switched off"

    def test_runs_in_float64(self) -> None:
        network, batch = self.case()
        params = {name: leaf.detach().double() for name, leaf in network.params.items()}
        assert network.forward(params, [x.double() for x in batch.inputs]).dtype == torch.float64


def _snapshot(network: ScoredNetwork, batches: Sequence[ScoringBatch]) -> list[Tensor]:
    data = [tensor for batch in batches for tensor in (*batch.inputs, batch.labels)]
    return [tensor.detach().clone() for tensor in (*network.params.values(), *data)]


def _assert_close(a: float, b: float) -> None:
    assert math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9), f"{a} and {b} should be the same"
