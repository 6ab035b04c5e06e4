"""Telling, failing, naming: what all searchers share and the suite does not look at."""

import json

import numpy as np
import pytest

from recnas.errors import ConfigError, RunError
from recnas.runs.records import PhaseBegun, PhaseDone, read_lines
from recnas.searchers.objective import Objectives
from recnas.searchers.registry import get_searcher, searcher_names, searcher_settings
from recnas.searchers.settings import LocalSettings, RandomSettings
from recnas.space.registry import get_space

SPACE = get_space("nasrec-small")
TINY = get_space("nasrec-small", blocks=1, dense_dims=(16,), sparse_dims=(16,))
LOSS = Objectives.of({"loss": "min"})


def random_search(candidates=20, space=SPACE, objectives=LOSS, **settings):
    return get_searcher("random", space, objectives, 0, {"candidates": candidates, "block": 8, **settings})


def test_the_ledger_line():
    searcher = random_search()
    proposal = searcher.ask()
    event = searcher.tell(proposal, {"loss": np.float32(0.5)})
    assert json.loads(json.dumps(event.to_json())) == {
        "event": "candidate",
        "index": 0,
        "key": proposal.key,
        "arch": SPACE.to_dict(proposal.arch),
        "origin": "random",
        "values": {"loss": 0.5},
    }
    assert SPACE.from_dict(event.arch) == proposal.arch


def test_a_failure_has_a_reason_and_no_number_in_the_ledger():
    searcher = random_search()
    event = searcher.tell(searcher.ask(), failed="gradient of block 3 is NaN")
    assert event.values is None
    assert event.failed == "gradient of block 3 is NaN"
    json.dumps(event.to_json(), allow_nan=False)
    searcher.tell(searcher.ask(), {"loss": 9.0})
    assert [told.proposal.index for told in searcher.best(5)] == [1]


def test_known_proposals_take_over_values_and_failures():
    searcher = random_search(30, TINY, redraws=5)
    events = []
    while not searcher.done:
        proposal = searcher.ask()
        if proposal.known:
            events.append(searcher.tell(proposal))
            first = events[proposal.same_as]
            assert events[-1].values == first.values
            assert events[-1].failed == first.failed
        elif proposal.index == 0:
            events.append(searcher.tell(proposal, failed="too slow"))
        else:
            events.append(searcher.tell(proposal, {"loss": float(proposal.index)}))
    assert sum(event.same_as is not None for event in events) >= 22
    assert any(event.failed and event.same_as is not None for event in events)
    assert len(searcher.best(30)) == 7


def test_a_known_proposal_cannot_get_other_values():
    searcher = random_search(30, TINY, redraws=0)
    while not (proposal := searcher.ask()).known:
        searcher.tell(proposal, {"loss": 1.0})
    with pytest.raises(RunError, match=r"is the same network as candidate \d+ but was told other values"):
        searcher.tell(proposal, {"loss": 2.0})
    searcher.tell(proposal, {"loss": 1.0})


@pytest.mark.parametrize(
    ("values", "failed", "message"),
    [
        ({}, None, "'loss' is missing"),
        ({"loss": 1, "auc": 2}, None, "'auc' is not an objective"),
        ({"loss": float("nan")}, None, "'loss' is nan"),
        (None, None, "needs values or the reason"),
        ({"loss": 1}, "both", "needs values or the reason"),
    ],
)
def test_what_cannot_be_told(values, failed, message):
    searcher = random_search()
    with pytest.raises(RunError, match=f"candidate 0 .*{message}"):
        searcher.tell(searcher.ask(), values, failed)


def test_out_of_turn():
    searcher = random_search()
    with pytest.raises(RuntimeError, match="nothing was asked"):
        searcher.tell(SPACE.sample(np.random.default_rng(0)), {"loss": 1})
    searcher.ask()
    with pytest.raises(RuntimeError, match="only a new searcher"):
        searcher.replay([])


def test_replay_names_the_line_that_differs():
    searcher = random_search()
    records = [PhaseBegun(name="warmup", at=0.0), PhaseDone(name="warmup", seconds=1.0)]
    for _ in range(12):
        records.append(searcher.tell(searcher.ask(), {"loss": 1.0}))
    other = [*records]
    other[9] = other[9].model_copy(update={"arch": other[8].arch})
    with pytest.raises(RunError, match=r"line 10 holds (\S+) as candidate 7, where .* proposes \1 in another"):
        random_search().replay(other)
    other = [*records]
    other[5] = other[5].model_copy(update={"values": {"gain": 1.0}})
    with pytest.raises(RunError, match=r"line 6: .*'loss' is missing"):
        random_search().replay(other)


def test_a_line_of_another_kind_is_named():
    lines = [random_search_line(), random_search_line()]
    lines[1]["values"] = {"loss": "high"}
    with pytest.raises(RunError, match=r"ledger.jsonl line 2 is not a line of a search run: .*values.loss"):
        read_lines("search", lines, "ledger.jsonl")
    with pytest.raises(RunError, match="line 1 is not a line of a search run"):
        read_lines("search", [{"event": "warm-up"}], "ledger.jsonl")


def random_search_line():
    searcher = random_search()
    return searcher.tell(searcher.ask(), {"loss": 1.0}).to_json()


def test_random_draws_do_not_depend_on_the_block():
    keys = []
    for block in (1, 7, 100):
        searcher = random_search(20, block=block)
        while not searcher.done:
            searcher.tell(searcher.ask(), {"loss": 1.0})
        keys.append([told.proposal.key for told in searcher.history])
    assert keys[0] == keys[1] == keys[2]


def test_best_and_front_of_nothing():
    searcher = random_search()
    assert searcher.best(3) == []
    assert searcher.front() == []


def test_names():
    assert searcher_names() == ("evolution", "random", "local", "hnas", "rank-pool", "reinforce", "bohb", "optuna")
    assert searcher_settings("local") == LocalSettings()
    with pytest.raises(ConfigError, match="unknown searcher 'evolutoin'\n  -> did you mean 'evolution'"):
        get_searcher("evolutoin", SPACE, LOSS, 0)
    with pytest.raises(ConfigError, match="'random' was given LocalSettings\n  -> give it RandomSettings"):
        get_searcher("random", SPACE, LOSS, 0, LocalSettings())
    assert get_searcher("random", SPACE, LOSS, 0, RandomSettings(candidates=3)).total == 3
