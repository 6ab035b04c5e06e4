"""Networks of nasrec-plus: NASRec's are the same, candidates are subnets, proxies can read them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recnas.baselines.base import InputShape
from recnas.baselines.encoded import encode
from recnas.baselines.zoo import build
from recnas.data.schema import Schema
from recnas.errors import SpaceError
from recnas.model.nasrec.scorable import ScoredNasrec
from recnas.model.nasrec.subnet import Subnet, new_subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.proxies.network import ScoringBatch
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.layers import NetShape
from recnas.space.nasrec.operators import OPERATORS
from recnas.space.plus import PlusSpace
from recnas.space.plus.convert import from_nasrec
from recnas.testing.proxy_suite import ScoredNetworkConformance
from recnas.train.paths import PathSampler
from recnas.train.settings import TrainSettings
from recnas.train.setup import make_tables

SHAPE = NetShape(5, 7, 8)


def narrow(blocks: int = 4) -> PlusSpace:
    return PlusSpace(blocks=blocks, dense_dims=(0, 8, 24, 40), sparse_dims=(4, 8, 12))


def inputs(batch: int = 5, width: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    dense = torch.randn(batch, 5, generator=generator, dtype=torch.float64) * 0.3
    embedded = torch.randn(batch, 7, width, generator=generator, dtype=torch.float64) * 0.3
    return dense, embedded.requires_grad_()


def supernet(space: PlusSpace) -> Supernet:
    generator = torch.Generator().manual_seed(1)
    net = Supernet(space, SHAPE, generator).double()
    for name, storage in net.storages.items():
        if name.endswith("bias") or ".norm." in name or not storage.any():
            storage.add_(torch.rand(storage.shape, generator=generator) * 0.2)
    return net


@pytest.mark.parametrize("name", ["nasrec-small", "nasrec-full"])
@pytest.mark.parametrize("layernorm", [True, False])
def test_nasrecs_networks_are_the_same(name: str, layernorm: bool):
    space, rng = NasrecSpace(name, blocks=5, dense_dims=(16, 32, 64), sparse_dims=(8, 16)), np.random.default_rng(0)
    dense, embedded = inputs(width=8)
    for _ in range(100 if layernorm else 20):
        arch = space.sample(rng)
        one = Subnet(arch, NetShape(5, 7, 8, layernorm)).double()
        two = Subnet(from_nasrec(arch), NetShape(5, 7, 8, layernorm)).double()
        two.load_state_dict(one.state_dict())
        expected, found = one(dense, embedded), two(dense, embedded)
        torch.testing.assert_close(found, expected)
        grads = [
            torch.autograd.grad(y.sum(), (embedded, *net.parameters())) for y, net in ((found, two), (expected, one))
        ]
        for mine, theirs in zip(*grads):
            torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)


def test_a_candidate_is_the_subnet_with_its_slices():
    space = narrow()
    net, rng, met = supernet(space), np.random.default_rng(4), set()
    dense, embedded = inputs()
    archs = [space.sample(rng) for _ in range(150)] + [space.sample_path(rng, "any-path") for _ in range(10)]
    for arch in archs:
        candidate = net.candidate(arch)
        alone = Subnet(arch, net.shape).double().copy_from(net).train()  # batch statistics, as in the supernet
        mine, theirs = candidate(dense, embedded), alone(dense, embedded)
        if not theirs.isfinite().all():  # products of products of a path with everything
            continue
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-9)
        mine.sum().backward()
        theirs.sum().backward()
        for param in candidate.plan.params:
            whole = alone.get_parameter(param.name).grad
            for piece in param.pieces:
                gradient = candidate.leaves[piece.leaf].grad
                if whole is None or gradient is None:  # a head of logits only
                    assert whole is gradient is None
                    continue
                within = 1e-7 * float(whole.abs().max()) + 1e-12
                torch.testing.assert_close(gradient, whole[piece.target], rtol=1e-6, atol=within, msg=piece.leaf)
        met |= {name for block in candidate.plan.blocks for name in block.parts}
    offered = {op for op in (*space.rules.dense_ops, *space.rules.sparse_ops) if op != "bilinear"}
    assert met >= offered, f"never drawn: {offered - met}"


def test_what_is_counted_is_what_is_built():
    from torch.utils.flop_counter import FlopCounterMode

    from recnas.model.kernels import plain_kernels

    space, rng = PlusSpace(blocks=6), np.random.default_rng(5)
    schema = Schema.of_shape(5, [10] * 7)
    for _ in range(60):
        arch = space.sample(rng)
        with torch.device("meta"):
            network = Subnet(arch, SHAPE)
        assert sum(p.numel() for p in network.parameters()) == count(arch, schema, width=8).params
        network = Subnet(arch, SHAPE).eval()
        flops = []
        for rows in (2, 4):
            with FlopCounterMode(display=False) as counter, plain_kernels(), torch.no_grad():
                network(torch.zeros(rows, 5), torch.zeros(rows, 7, 9))
            flops.append(counter.get_total_flops())
        assert (flops[1] - flops[0]) // 4 == count(arch, schema, width=8).macs


def test_encoded_models_are_candidates_where_widths_allow():
    shape = InputShape(5, 7, 8)
    net = Supernet(PlusSpace(blocks=9), SHAPE, torch.Generator().manual_seed(0))
    dense, embedded = inputs()
    for name in ("lr", "fm", "fwfm", "dnn", "wide-deep", "deepfm", "xdeepfm", "dcn", "dcn-v2", "gdcn", "dcnv3", "masknet",
                 "dlrm", "finalmlp", "finalnet", "wukong"):  # fmt: skip
        small = {"exponential": 2, "linear": 2} if name == "dcnv3" else {}
        arch = encode(name, shape, small)
        alone = Subnet(arch, net.shape).copy_from(net)
        mine, theirs = (each(dense.float(), embedded.float()) for each in (net.candidate(arch), alone.train()))
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4, msg=name)
    with pytest.raises(SpaceError, match="too wide for the supernet"):
        net.candidate(encode("fibinet", shape))
    with pytest.raises(SpaceError, match="too wide for the supernet"):
        net.candidate(encode("dnn", shape, {"hidden": (2000, 10)}))


def test_early_paths_of_a_warm_up_have_several_operators():
    sampler = PathSampler(narrow(), 0, 100)
    sizes = [max(len(block.dense_ops) for block in sampler.path(step).blocks) for step in range(40)]
    assert max(sizes[:5]) > 1
    assert set(sizes[20:]) == {1}


def test_running_statistics_are_buffers_of_a_network_and_go_on():
    arch = encode("dnn", InputShape(5, 7, 8), {"hidden": (6, 4), "norm": "batch"})
    network = new_subnet(arch, SHAPE, 0)
    names = {name for name, _ in network.named_buffers()}
    assert names == {f"blocks.{b}.deep.norm.running_{kind}" for b in (1, 2) for kind in ("mean", "var")}
    dense, embedded = (x.float() for x in inputs(width=8))
    before = {name: buffer.clone() for name, buffer in network.named_buffers()}
    network.eval()(dense, embedded)
    assert all(torch.equal(before[name], buffer) for name, buffer in network.named_buffers())
    network.train()(dense, embedded)
    assert not any(torch.equal(before[name], buffer) for name, buffer in network.named_buffers())
    network(dense[:1], embedded[:1])  # a training batch of one row is normalised as in evaluation


@pytest.mark.parametrize(("n_dense", "n_sparse"), [(0, 7), (5, 1), (3, 30)])
def test_other_shapes_of_data(n_dense: int, n_sparse: int):
    space, rng = narrow(), np.random.default_rng(0)
    net = Supernet(space, NetShape(n_dense, n_sparse, 8), torch.Generator().manual_seed(0)).double()
    dense, embedded = torch.rand(4, n_dense).double(), torch.randn(4, n_sparse, 9).double() * 0.3
    for _ in range(40):
        arch = space.sample(rng)
        with torch.no_grad():
            found = net.candidate(arch)(dense, embedded)
            expected = Subnet(arch, net.shape).double().copy_from(net).train()(dense, embedded)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["deepfm", "lr", "dnn"])
def test_tables_start_as_those_of_the_hand_crafted_model(name: str):
    shape, settings = InputShape(5, 7, 8), TrainSettings.model_validate({"embeddings": {"width": 8}})
    schema, cpu = Schema.of_shape(5, [11] * 7), torch.device("cpu")
    networks = (build(name, shape), Subnet(encode(name, shape), SHAPE))
    theirs, mine = (make_tables(schema, settings, 3, cpu, network) for network in networks)
    assert mine.weights.keys() == theirs.weights.keys()
    for table in mine.weights:
        assert torch.equal(mine.weights[table], theirs.weights[table])


SCORED = [
    op for op in OPERATORS if op in {*PlusSpace().rules.dense_ops, *PlusSpace().rules.sparse_ops} and op != "bilinear"
]


@pytest.mark.parametrize("op", SCORED)
class TestScored(ScoredNetworkConformance):
    """A candidate with each of the operators in use."""

    net = supernet(narrow())

    @pytest.fixture(autouse=True)
    def _choose(self, op: str) -> None:
        space, rng = self.net.space, np.random.default_rng(7)
        dense, embedded = inputs()
        while True:
            arch = space.sample(rng)
            plan = self.net.plan(arch)
            if op in {name for block in plan.blocks for name in block.parts} and plan.head.weight:
                logits = self.net.candidate(arch)(dense, embedded)
                if logits.isfinite().all() and float(logits.detach().abs().max()) < 50:
                    break
        self._scored = ScoredNasrec.of(self.net.candidate(arch))

    def test_forward_reads_the_parameters_it_is_given(self):
        """Sums of products and first-order weights are logits without parameters, so zeros need not give zero."""
        network, batch = self.case()
        zeros = {name: torch.zeros_like(leaf) for name, leaf in network.params.items()}
        with torch.no_grad():
            expected = network.forward(zeros, batch.inputs)
            kept = {name: leaf.clone() for name, leaf in network.params.items()}
            for leaf in network.params.values():
                leaf.fill_(float("nan"))
            found = network.forward(zeros, batch.inputs)
            for name, leaf in network.params.items():
                leaf.copy_(kept[name])
        assert torch.equal(found, expected), "parameters that are not in `params` are used"

    def case(self):
        dense, embedded = inputs()
        return self._scored, ScoringBatch((dense, embedded.detach()), torch.tensor([0.0, 1, 0, 1, 1]).double())
