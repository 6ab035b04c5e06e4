"""Random streams have names, and two uses of a seed never share one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from recnas import seeds
from recnas.jobs.bench import first_archs
from recnas.runs.ledger import Ledger
from recnas.searchers.evolution import Evolution
from recnas.searchers.objective import Objectives
from recnas.searchers.random_search import RandomSearch
from recnas.searchers.registry import searcher_names
from recnas.searchers.settings import EvolutionSettings, RandomSettings
from recnas.seeds import SEARCHER, STREAMS, stream, stream_seed
from recnas.space.nasrec import NasrecSpace
from recnas.train.settings import WarmupConfig
from recnas.train.warmup import warmup

PACKAGE = Path(seeds.__file__).parent
GOALS = Objectives.of({"x": "max"})
# The rooms whose draws belong to a run, and what there makes a generator of its own and why.
RUN_ROOMS = ("train", "searchers", "evaluators", "tasks", "jobs")
OWN_GENERATORS = {
    "evaluators/two_layer.py": "the split of its 1,797 digits, the same for every seed",
    "searchers/bayes.py": "made from the number of hnas-suggestion",
    "tasks/settings.py": "any architecture will do to check sizes",
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), ast.parse(path.read_text())


def names_in(module: ast.Module) -> set[str]:
    return {node.value for node in ast.walk(module) if isinstance(node, ast.Constant) and node.value in STREAMS}


def calls_in(module: ast.Module) -> set[str]:
    """The functions a module calls, by their last name."""
    functions = [node.func for node in ast.walk(module) if isinstance(node, ast.Call)]
    return {
        function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "") for function in functions
    }


def test_every_name_is_used_in_the_module_it_is_listed_with_and_nowhere_else():
    used: dict[str, set[str]] = {name: set() for name in STREAMS}
    for path, module in modules():
        if path not in ("seeds.py", "cli/main.py"):  # a command may have the name of a stream
            for name in names_in(module):
                used[name].add(path)
    assert used == {name: {path} for name, path in STREAMS.items()}


def test_no_other_generators_are_made_where_a_run_draws():
    makers = {path for path, module in modules() if calls_in(module) & {"default_rng", "SeedSequence", "RandomState"}}
    assert {path for path in makers if path.startswith(RUN_ROOMS)} == set(OWN_GENERATORS)


def test_all_names_differ_and_so_do_their_draws():
    names = [*STREAMS, *(SEARCHER + searcher for searcher in searcher_names())]
    assert len({seeds._code(name) for name in names}) == len(names)
    first = {stream(3, name).integers(2**62) for name in names}
    assert len(first) == len(names)
    assert len({stream_seed(3, name) for name in names}) == len(names)
    assert all(0 <= stream_seed(seed, name) < 2**63 for seed in (0, 2**62) for name in names)
    repeated = [stream(3, "row-order", epoch).integers(2**62) for epoch in range(5)]
    assert len(set(repeated)) == 5
    assert repeated == [stream(3, "row-order", epoch).integers(2**62) for epoch in range(5)]


def test_an_unknown_name_is_refused():
    for draw in (stream, stream_seed):
        with pytest.raises(KeyError, match=r"'row-odrer' is not in recnas\.seeds\.STREAMS"):
            draw(0, "row-odrer")


@pytest.mark.parametrize("seed", [0, 7])
def test_a_table_and_a_random_search_of_one_seed_are_independent(seed: int):
    space = NasrecSpace("nasrec-small")
    table = {space.key(arch) for arch in first_archs(space, seed, 20)}
    search = RandomSearch(space, GOALS, seed, RandomSettings(candidates=20))
    proposed = {space.key(proposal.arch) for proposal in search.ask_batch()}
    assert len(table) == 20
    assert len(proposed) >= 10
    assert not table & proposed


def test_a_first_population_is_not_what_the_warm_up_looked_at(criteo_data, tmp_path: Path):
    config = WarmupConfig.model_validate(
        {
            "data": str(criteo_data.path),
            "seed": 5,
            "space": {"name": "nasrec-small", "blocks": 3},
            "warmup": {"data_share": 0.02, "least_steps": 3},
            "check": {"archs": 10, "rows": 50},
        }
    )
    warmup(config, tmp_path / "run")
    lines = Ledger(tmp_path / "run" / "ledger.jsonl").read()
    space = NasrecSpace("nasrec-small", blocks=3)
    looked_at = {space.key(space.from_dict(line["arch"])) for line in lines}
    search = Evolution(space, GOALS, 5, EvolutionSettings(population=10, generations=1, children=1, tournament=2))
    population = {space.key(proposal.arch) for proposal in search.ask_batch()}
    assert len(looked_at) == len(population) == 10
    assert not looked_at & population
