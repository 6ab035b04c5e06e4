"""Forecasts for a GPU, made up: what its memory holds and what that changes, by arithmetic."""

from __future__ import annotations

import pytest

from recnas.cli.main import main
from recnas.data.prepared import PreparedData
from recnas.devices import Gpu
from recnas.errors import ConfigError
from recnas.tasks.forecast import GPU_LIBRARIES, Forecast, check_fits, forecast
from tests.jobs.search_helpers import as_yaml, small_search

CARD = Gpu("Card", 24e9, 20e9, 10_000)


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("recnas.tasks.forecast.probe", lambda: 50.0)
    monkeypatch.setattr("recnas.tasks.forecast.available_cores", lambda: 8)
    monkeypatch.setattr("recnas.tasks.forecast.available_memory", lambda: 64e9)


def made(data: PreparedData, workers: int, cards: list[Gpu], **changes: object) -> Forecast:
    return forecast(small_search(data.path, **changes), workers, data, cards)


def test_a_gpu_that_nothing_uses_changes_nothing(criteo_data: PreparedData):
    on_cpu = {"supernet": {"device": "cpu"}, "score": {"device": "cpu"}, "final": {"train": {"device": "cpu"}}}
    with_card, without = (made(criteo_data, 2, cards, **on_cpu) for cards in ([CARD], []))
    assert with_card.phases == without.phases
    assert with_card.gpu is None
    assert all(phase.gpu_bytes == 0 for phase in without.phases)


def test_workers_share_the_memory_of_a_gpu_and_of_several_each_has_a_part(criteo_data: PreparedData):
    one, four, spread = (
        {phase.name: phase.gpu_bytes for phase in made(criteo_data, workers, cards).phases}
        for workers, cards in ((1, [CARD]), (4, [CARD]), (4, [CARD] * 2))
    )
    for phase in ("search", "finalists"):  # the process that warmed up keeps its libraries there
        assert four[phase] - GPU_LIBRARIES == pytest.approx(4 * one[phase])
        assert spread[phase] - GPU_LIBRARIES == pytest.approx(2 * one[phase])
    assert four["winner"] == one["winner"] >= GPU_LIBRARIES  # the winner is trained alone


def test_two_gpus_halve_the_search_and_a_faster_one_shortens_it(criteo_data: PreparedData):
    def seconds(cards: list[Gpu], workers: int = 2) -> float:
        found = {
            phase.name: 60 * phase.minutes for phase in made(criteo_data, workers, cards, score={"batches": 64}).phases
        }
        return found["search"]

    fast = Gpu("Fast", 24e9, 20e9, 100_000)
    start = 3.0
    assert seconds([CARD] * 2) - start == pytest.approx((seconds([CARD]) - start) / 2, rel=0.2)
    assert seconds([fast]) < seconds([CARD])
    assert seconds([fast, CARD]) == seconds([CARD, CARD])  # a search waits for the slower one


def test_tables_in_host_memory_take_none_of_the_gpu(criteo_data: PreparedData):
    offload = {"embeddings": {"offload": True}}
    there, here = (
        made(criteo_data, 1, [CARD], supernet=tables, final={"candidates": 1, "train": {"epochs": 1, **tables}})
        for tables in ({}, offload)
    )
    assert all(a.gpu_bytes > b.gpu_bytes for a, b in zip(there.phases, here.phases) if a.name != "search")


def test_a_search_that_a_gpu_cannot_hold_is_refused(criteo_data: PreparedData):
    small = Gpu("Small", 4e9, 0.4e9, 10_000)
    found = made(criteo_data, 1, [CARD, small])
    assert found.gpu == Gpu("Card", 4e9, 0.4e9, 10_000)
    with pytest.raises(ConfigError, match=r"of a GPU's memory; .* are free on Card") as caught:
        check_fits(found)
    assert caught.value.fix is not None
    assert "supernet.embeddings.offload=true" in caught.value.fix
    check_fits(made(criteo_data, 1, [CARD]))


def test_the_command_shows_the_gpu(criteo_data: PreparedData, monkeypatch: pytest.MonkeyPatch, capsys, tmp_path):
    monkeypatch.setattr("recnas.tasks.forecast.gpus", lambda: [CARD])
    assert main(["forecast", str(as_yaml(small_search(criteo_data.path), tmp_path / "s.yaml")), "--workers", "2"]) == 0
    said = capsys.readouterr().out
    assert "of a GPU" in said.splitlines()[0]
    assert "computed on 1 x Card" in said
    assert "guesses that were never measured" in said
