"""Parts of a step on a device, each beside what the CPU does: sums by row, clipping, optimizers, batches, precision."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch

from recnas.data.loader import BatchLoader
from recnas.data.prepared import PreparedData
from recnas.errors import DataError
from recnas.model.embeddings import build_embeddings, sum_by_row
from recnas.model.embeddings.base import sum_by_row_in_place
from recnas.model.embeddings.row_map import RowMap
from recnas.proxies.base import ProxyError
from recnas.proxies.engine import score
from recnas.proxies.network import ScoringBatch
from recnas.proxies.registry import get_proxies
from recnas.train.loop import _autocast
from recnas.train.pending import READ_EVERY, NotFinite, PendingLosses
from recnas.train.settings import SupernetSettings, TrainSettings
from recnas.train.slice_optim import SliceAdagrad, SliceAdamW, clip_factor, clip_scale
from tests.unit.device.second import NAME, SecondTensor, second_device
from tests.unit.device.test_scoring import images


@pytest.mark.parametrize("rows", [[4, 1, 4, 4, 9, 1], [3], [7, 7, 7], [0, 1, 2, 3]])
def test_sums_by_row_are_the_same_without_knowing_how_many_rows_differ(rows: list[int]):
    given, grad = torch.tensor(rows), torch.randn(len(rows), 3)
    touched, sums = sum_by_row(given, grad)
    there, padded, distinct = sum_by_row_in_place(given, grad)
    many = len(touched)
    assert int(distinct) == many
    assert torch.equal(there[:many], touched)
    assert torch.equal(padded[:many], sums)
    # Whatever stands behind writes what the first place writes.
    assert there[many:].tolist() == [touched[0]] * (len(rows) - many)
    assert all(torch.equal(row, sums[0]) for row in padded[many:])
    with second_device() as device:
        sum_by_row_in_place(given.to(NAME), grad.to(NAME))
        assert not device.reads


@pytest.mark.parametrize("most", [0.1, 1e9])
def test_gradients_in_several_places_are_clipped_by_one_norm(most: float):
    grads = [torch.randn(4, 3), torch.randn(5), torch.randn(2, 2)]
    wanted = clip_scale(grads, most)
    assert clip_factor(grads, most) == wanted
    with second_device() as device:
        mixed = [grads[0].to(NAME), grads[1], grads[2].to(NAME)]
        with pytest.raises(RuntimeError, match="on one device"):  # as steps with tables in host memory once did it
            clip_scale(mixed, most)
        factor = clip_factor(mixed, most)
        assert isinstance(factor, SecondTensor)
        assert not device.reads
        assert float(factor) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("kind", [SliceAdagrad, SliceAdamW])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_many_slices_are_updated_at_once_as_one_after_the_other(
    kind: Any, scale: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("recnas.train.slice_optim._ELEMENTS_TOGETHER", 10)  # in several groups

    def trained(where: torch.device) -> tuple[list[torch.Tensor], dict[str, Any]]:
        draw = torch.Generator().manual_seed(0)
        storages = {name: torch.randn(4, 3, generator=draw).to(where) for name in "abc"}
        optimizer = kind(storages)
        for step in range(3):
            slices = []
            for name, storage in storages.items():
                region = (slice(0, 2 + step % 2), slice(0, 3))
                leaf = storage.detach()[region].requires_grad_()
                leaf.grad = None if name == "b" and step == 1 else torch.randn(leaf.shape, generator=draw).to(where)
                slices.append((f"{name}{step % 2}", leaf, name, region))
            optimizer.step(slices, 0.1, scale if where.type == "cpu" else torch.tensor(scale).to(where))
            assert all(leaf.grad is None for _, leaf, _, _ in slices)
        return [storage.cpu() for storage in storages.values()], optimizer.state_dict()

    here, state = trained(torch.device("cpu"))
    with second_device():
        there, state_there = trained(NAME)
        for part, tensors in state.items():
            for name, one in tensors.items() if part != "steps" else ():
                torch.testing.assert_close(state_there[part][name].cpu(), one)
        assert state_there.get("steps") == state.get("steps")
    for one, other in zip(here, there):
        torch.testing.assert_close(other, one)


def test_losses_are_read_first_and_then_many_at_a_time():
    with second_device() as device:
        losses, found = PendingLosses(NAME), list[float]()
        for step in range(2 * READ_EVERY):
            losses.add(torch.tensor(float(step), device=NAME), step, {"epoch": 0, "batch": step + 1})
            if losses.due:
                found += losses.read()
        assert found == list(range(1 + READ_EVERY))
        assert len(device.reads) == 2
        losses.add(torch.tensor(float("inf"), device=NAME), 2 * READ_EVERY, {"epoch": 1, "batch": 3})
        with pytest.raises(NotFinite, match=r"became inf at step 101 \(epoch 1, batch 3\)") as caught:
            losses.read()
        assert caught.value.before == tuple(range(1 + READ_EVERY, 2 * READ_EVERY))
    assert PendingLosses(torch.device("cpu")).every == 1


def test_batches_are_sent_as_they_are_and_the_position_counts_those_that_were_used(criteo_data: PreparedData):
    with second_device():
        here = BatchLoader(criteo_data, "train", 64, shuffle=True, seed=3)
        there = BatchLoader(criteo_data, "train", 64, shuffle=True, seed=3, device=NAME)
        for _, one, other in zip(range(3), here.epoch(), there.epoch()):
            for tensor, moved in zip(one.tensors(), other.tensors()):
                assert isinstance(moved, SecondTensor)
                assert torch.equal(tensor, moved.inner)
        assert there.state_dict() == {"epoch": 0, "batch": 3}


@pytest.mark.parametrize("optimizer", ["adagrad", "adam"])
def test_bags_are_pooled_and_trained_on_a_device_too(bagged_data: PreparedData, optimizer: str):
    """Sums, maxima and attention, with rows that a batch touches several times."""

    def trained(device: torch.device | str) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
        own, norms = build_embeddings(bagged_data.schema, 8, "plain", optimizer, device=device, seed=1), []
        for step, batch in enumerate(bagged_data.batches("valid", 150)):
            lookup = own.begin(batch.ids.to(device))
            weight = torch.randn(lookup.leaf.shape, generator=torch.Generator().manual_seed(step))
            (lookup.leaf * weight.to(device)).sum().backward()
            norms.append(lookup.table_gradient().norm())
            lookup.apply()
        return norms, own.state_dict()["weights"]

    norms, tables = trained("cpu")
    with second_device():
        found, there = trained(NAME)
        assert all(isinstance(table, SecondTensor) for table in there.values())
        for one, other in zip([*norms, *tables.values()], [*found, *(there[name] for name in tables)]):
            torch.testing.assert_close(other.inner, one, rtol=1e-4, atol=1e-6)


def test_ids_without_a_row_are_found_on_a_device_too(criteo_data: PreparedData):
    with second_device():
        rows = RowMap(criteo_data.schema, None, None, NAME)
        ids = torch.zeros(2, criteo_data.schema.n_sparse, dtype=torch.int64)
        rows.check(ids.to(NAME))
        ids[1, 2] = 10**6
        with pytest.raises(DataError, match="has id 1000000 but its table has"):
            rows.check(ids.to(NAME))


@pytest.mark.parametrize("proxy", ["sigeo", "grad_norm", "grasp"])
def test_numbers_that_are_none_are_refused_with_the_name_of_their_parameter(proxy: str):
    with second_device():
        network, batches = images(NAME)
        bad = [ScoringBatch((batch.inputs[0] * float("nan"),), batch.labels) for batch in batches]
        with pytest.raises(ProxyError, match="NaN or infinite"):
            score(network, bad, get_proxies([proxy]))


def test_precision_is_float32_on_every_device_unless_a_user_asks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    for kind in (TrainSettings, SupernetSettings):
        assert _autocast(kind(), torch.device("cuda")) is nullcontext
        assert _autocast(kind(precision="float32"), torch.device("cuda")) is nullcontext
    asked = _autocast(TrainSettings(precision="bfloat16"), torch.device("cpu"))
    with asked():
        assert torch.is_autocast_enabled("cpu")
