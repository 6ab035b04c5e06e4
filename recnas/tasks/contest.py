"""A contest of searches: which arms take part, and how each is held to the same number of training rows.

An arm is a search like any other (`configs/contest/`). Its rows are those that train anything: a supernet in its
warm-up, candidates, and the winner where it is trained once more. Scoring reads rows, but trains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from recnas.config import Settings, apply_overrides, based, check_settings, merged, nearest, read_config
from recnas.data.prepared import PreparedData
from recnas.errors import ConfigError
from recnas.runs.layout import RESULT, WARMUP_FOLDER
from recnas.runs.read import read_run
from recnas.runs.records import ArmRun
from recnas.runs.results import WarmupResult, read_record
from recnas.runs.search_result import SearchResult
from recnas.searchers.course import rows_read
from recnas.tasks.ctr import CtrTask
from recnas.tasks.settings import CtrSearchConfig


class ContestConfig(Settings):
    """`recnas contest`: which searches, on which data, with how many training rows."""

    data: str  # folder of the prepared data
    budget: float = Field(20.0, gt=0)  # of each arm and seed, in passes over the training rows
    seeds: int = Field(5, ge=1)  # searches of each arm
    seed: int = Field(0, ge=0)  # the first of them
    racing: dict[str, Any] = Field({})  # settings of every arm that has a race, over its own
    arms: dict[str, dict[str, Any]] = Field(
        min_length=1
    )  # settings of a search by the arm's name; `base` names a config

    def arm(self, name: str, seed: int, data: PreparedData) -> CtrSearchConfig:
        """The search of one arm and seed, its budget set."""
        config = self.settings(name).model_copy(update={"data": str(data.path), "seed": seed})
        return within_budget(config, name, self.budget, data)

    def settings(self, name: str) -> CtrSearchConfig:
        """Of an arm, before its seed and its budget are."""
        values = dict(self.arms[name])
        if "race" in (values.get("final") or {}):
            values = merged(values, self.racing)
        return check_settings(CtrSearchConfig, {**values, "data": self.data}, f"arm {name}")


def load_contest(path: Path | str, overrides: Sequence[str], said: Mapping[str, Any]) -> ContestConfig:
    """A config with what the command says; `search.limits.macs=1e6` is a setting of the arm `search`."""
    values = read_config(path)
    arms = values.get("arms")
    known = arms if isinstance(arms, Mapping) else {}
    typed = [f"arms.{item}" if item.split("=")[0].split(".")[0] in known else item for item in overrides]
    values["arms"] = {name: based(dict(one or {}), Path(path)) for name, one in known.items()}
    faults = apply_overrides(values, typed)
    values |= {key: value for key, value in said.items() if value is not None}
    config = check_settings(ContestConfig, values, str(path), faults, typed)
    for name in config.arms:
        config.settings(name)
    return config


def chosen_arms(config: ContestConfig, names: Sequence[str] | None) -> list[str]:
    """Those that are named, or all."""
    for name in names or ():
        if name not in config.arms:
            raise ConfigError(f"there is no arm {name!r}; {nearest(name, config.arms)}")
    return list(dict.fromkeys(names or config.arms))


def within_budget(config: CtrSearchConfig, name: str, budget: float, data: PreparedData) -> CtrSearchConfig:
    """The same search with as long a race, or as many trained candidates, as the rows allow."""
    final, rows = config.final, data.rows("train")
    raced = min(final.rows or rows, rows)
    left = budget * rows - _warmup_rows(config, rows) - _query_rows(config, rows)
    if final.retrains:
        settings = final.retrain_settings or final.train
        left -= final.retrain_seeds * settings.epochs * _last_rows(config, data)
    if final.race is not None:
        race = final.race.model_copy(update={"budget": left / raced})
        return config.model_copy(update={"final": final.model_copy(update={"race": race})})
    each = final.seeds * final.train.epochs * raced
    candidates = math.floor(left / each + 1e-9)
    if candidates < 1:
        least = math.ceil(100 * (budget + (each - left) / rows)) / 100
        raise ConfigError(
            f"a budget of {budget:g} passes over the training rows is too small for the arm {name}: nothing is left for "
            "the training of one candidate.",
            f"The least that works: --budget {least:g}x. Or leave it out of --arms.",
        )
    return config.model_copy(update={"final": final.model_copy(update={"candidates": candidates})})


def _warmup_rows(config: CtrSearchConfig, rows: int) -> float:
    return round(config.warmup.data_share * rows) * config.supernet.epochs if config.needs_supernet else 0


def _query_rows(config: CtrSearchConfig, rows: int) -> float:
    if config.evaluator != "training":
        return 0
    query = config.query_training
    return config.search.proposals * query.train.epochs * min(query.rows or rows, rows)


def _last_rows(config: CtrSearchConfig, data: PreparedData) -> int:
    """Rows of one pass of the winner's last training."""
    return data.rows("train") + (data.rows("valid") if config.final.retrain_on == "train+valid" else 0)


def arm_run(name: str, task: CtrTask, folder: Path, result: SearchResult) -> ArmRun:
    """The line about a search that has ended."""
    config, data = task.config, task.data
    run, final, rows = read_run(folder), config.final, data.rows("train")
    warmed = read_record(WarmupResult, folder / WARMUP_FOLDER / RESULT)
    raced = min(final.rows or rows, rows)
    # Of queries the ledger has no steps; they are reckoned with all their passes.
    trained = round(_query_rows(config, rows)) + sum(
        rows_read(line.steps, final.train.batch_size, raced) for line in run.trained if result.race is None
    )
    batch = int(run.winner_manifest.settings["batch_size"]) if run.winner_manifest is not None else 1
    retrained = sum(rows_read(line.steps, batch, _last_rows(config, data)) for line in run.winner_trainings)
    names = {task.space.key(seed.arch): seed.name for seed in task.seeds}
    return ArmRun(
        arm=name,
        seed=config.seed,
        winner=names.get(result.winner.key, result.winner.key[:12]),
        key=result.winner.key,
        recipe=result.race.changed if result.race is not None else {},
        valid=result.valid,
        test=result.test,
        warmup_rows=round(warmed.rows * config.supernet.epochs) if warmed is not None else 0,
        trained_rows=trained if result.race is None else result.race.trained_rows,
        retrained_rows=retrained if final.retrains else 0,
        cost=dict(result.winner.cost),
        latency=dict(task.latency(task.space.from_dict(result.winner.arch))),
        seconds=sum(result.seconds.values()),
    )
