"""Searches with the same number of training rows against each other: `recnas contest`.

    RUN/contest.json       the settings it was last started with, for --resume
    RUN/<arm>-<seed>/      an ordinary search: it can be watched, reported and compared with by itself
    RUN/ledger.jsonl       one line per arm and seed that ended
    RUN/result.json        the table so far

Arm by arm and seed by seed; what has ended is not run again, and arms and seeds may be added. Each winner reads test once, in its
own search; the table is made from the scores that are kept there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recnas.bench.bootstrap import RowSums, judge
from recnas.bench.contest import contest_board, mean_of
from recnas.data.prepared import PreparedData
from recnas.engines.execution import Execution
from recnas.errors import ConfigError, RecnasError, RunError
from recnas.files import write_json
from recnas.jobs.search import search_task
from recnas.runs.folder import RunDir
from recnas.runs.identity import data_facts
from recnas.runs.layout import RESULT, WINNER_FOLDER
from recnas.runs.records import ArmRun, read_lines
from recnas.runs.results import ContestBoard, read_json
from recnas.tasks.contest import ContestConfig, arm_run, chosen_arms
from recnas.tasks.ctr import CtrTask
from recnas.train.logits import logits_path, read_logits

ASKED = "contest.json"


def contest(
    config: ContestConfig, out: Path | str, arms: Sequence[str] | None = None, how: Execution | None = None
) -> ContestBoard:
    """Run a contest, or what is missing of one."""
    how = how or Execution()
    how.check()
    names, data = chosen_arms(config, arms), PreparedData.open(config.data)
    facts = data_facts(data.path, data.fingerprint, out)
    run = RunDir.create(out, "contest", data=facts, budget=config.budget, first_seed=config.seed)
    asked = [(arm, seed) for arm in names for seed in range(config.seed, config.seed + config.seeds)]
    job = _Contest(config, run, data, how)
    job.check(asked)
    with run.locked():
        write_json(run.path / ASKED, {**config.model_dump(mode="json"), "chosen": names})
        for arm, seed in asked:
            if not job.is_done(arm, seed):
                job.run(arm, seed)
                write_json(run.path / RESULT, job.board(names).to_json())
        board = job.board(names)
        write_json(run.path / RESULT, board.to_json())
    return board


def kept_contest(out: Path | str, data: str | None = None) -> tuple[ContestConfig, list[str]]:
    """What a contest was last started with, and its arms; `data` if the data set has moved."""
    run = RunDir.open(out)
    run.check("contest")
    kept = read_json(run.path / ASKED)
    if kept is None:
        raise RunError(f"{run.path} has not begun.", "Repeat the command that it was started with.")
    names = kept.pop("chosen")
    return ContestConfig.model_validate({**kept, "data": data or str(run.data_path())}), names


def table_so_far(out: Path | str, data: str | None = None) -> ContestBoard:
    """Of a contest that may be running meanwhile."""
    config, names = kept_contest(out, data)
    return _Contest(config, RunDir.open(out), PreparedData.open(config.data), Execution()).board(names)


class _Contest:
    def __init__(self, config: ContestConfig, run: RunDir, data: PreparedData, how: Execution) -> None:
        self.config, self.folder, self.data, self.how = config, run, data, how
        self.lines: list[ArmRun] = read_lines("contest", run.ledger.read(), str(run.ledger.path))
        self._sums: dict[Path, RowSums] = {}

    def path(self, arm: str, seed: int) -> Path:
        return self.folder.path / f"{arm}-{seed}"

    def check(self, asked: Sequence[tuple[str, int]]) -> None:
        """Refuse what is wrong for every arm, and searches that were begun with other settings."""
        faults: dict[str, ConfigError] = {}
        for arm, seed in asked:
            try:
                config = self.config.arm(arm, seed, self.data)
                if seed == self.config.seed and not self.is_done(arm, seed):
                    CtrTask(config)
            except ConfigError as error:
                faults[arm] = error
                continue
            if (self.path(arm, seed) / "manifest.json").exists():
                RunDir.open(self.path(arm, seed)).check("search", config=config.identity())
        if len(faults) == len({arm for arm, _ in asked}):
            raise next(iter(faults.values()))

    def is_done(self, arm: str, seed: int) -> bool:
        """A search that failed is tried again."""
        return any(line.failed is None for line in self.lines if (line.arm, line.seed) == (arm, seed))

    def run(self, arm: str, seed: int) -> None:
        progress = self.how.progress
        progress.say(f"contest: arm {arm}, seed {seed}, in {self.path(arm, seed)}")
        try:
            task = CtrTask(self.config.arm(arm, seed, self.data))
            result = search_task(task, self.path(arm, seed), self.how)
            line = arm_run(arm, task, self.path(arm, seed), result)
            said = f"{line.winner}, test log loss {line.test['logloss']:.5f}"
        except Exception as error:  # whatever it is: one arm must not end the others
            reason = error.what if isinstance(error, RecnasError) else f"{type(error).__name__}: {error}"
            line, said = ArmRun(arm=arm, seed=seed, failed=reason), f"failed: {reason}"
        self.folder.ledger.append(line.to_json())
        self.lines.append(line)
        progress.say(f"contest: arm {arm}, seed {seed}: {said}")

    def board(self, names: Sequence[str]) -> ContestBoard:
        config = self.config
        order = [name for name in config.arms if name in names]
        done = [line for line in self.lines if line.failed is None]
        return contest_board(
            self.lines,
            {(line.arm, line.seed): self._test_sums(self.path(line.arm, line.seed)) for line in done},
            order,
            self.data.fingerprint,
            {split: self.data.rows(split) for split in ("train", "valid", "test")},
            config.budget,
            range(config.seed, config.seed + config.seeds),
        )

    def _test_sums(self, search: Path) -> RowSums:
        """Of the winner's trainings; read once."""
        if search not in self._sums:
            judged = judge(self.data, "test")
            files = sorted(logits_path(search / WINNER_FOLDER, "test", 0).parent.glob("test-seed-*.npy"))
            self._sums[search] = mean_of([judged(read_logits(file)) for file in files])
        return self._sums[search]
