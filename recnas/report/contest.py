"""A contest of searches: its table, the differences, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recnas.bench.contest import winners
from recnas.report.table import Column, Table
from recnas.runs.run import Run


def arms(runs: Sequence[Run]) -> Table:
    """One row per arm; of several contests one after the other."""
    columns = (
        Column("arm", "arm"), Column("seeds", "seeds", "int"), Column("winners", "winners"),
        Column("test_logloss", "test log loss", "loss", "test_logloss_std"), Column("auc", "test AUC", "loss", "auc_std"),
        Column("valid_logloss", "validation log loss", "loss"), Column("passes", "training rows, in passes", "ratio"),
        Column("flops", "FLOPs per row", "num"), Column("latency_ms_1", "ms for 1 row", "time"),
        Column("latency_ms_512", "ms for 512 rows", "time"), Column("embedding_mb", "MB of tables", "num"), Column("where", "from"),
    )  # fmt: skip
    rows = [
        {
            "arm": arm.arm,
            "seeds": len(arm.seeds),
            "winners": winners(arm) or None,
            "test_logloss": arm.test.mean,
            "test_logloss_std": arm.test.std,
            "auc": arm.auc.mean,
            "auc_std": arm.auc.std,
            "valid_logloss": arm.valid.mean,
            "passes": arm.rows / board.rows["train"],
            **{name: getattr(arm, name) for name in ("flops", "latency_ms_1", "latency_ms_512", "embedding_mb")},
            "where": run.label,
        }
        for run in runs
        if (board := run.contest) is not None
        for arm in board.arms
    ]
    note = (
        "Each arm is a search that may train on the same number of rows, warm-up and retraining counted; ± is the standard deviation over "
        "seeds. Costs are means over the winners; times are medians of one thread."
    )
    return Table("arms", "Contest: arms on test", columns, rows, note)


def contest_differences(runs: Sequence[Run]) -> Table:
    columns = (
        Column("pair", "difference"), Column("logloss", "test log loss", "delta"),
        Column("interval", "95 % interval", "delta"), Column("real", "real"),
    )  # fmt: skip
    rows = [
        {
            "pair": f"{pair.model} less {pair.other}",
            "logloss": pair.difference.logloss,
            "interval": list(pair.difference.logloss_interval),
            "real": pair.difference.real,
        }
        for run in runs
        for pair in (run.contest.differences if run.contest is not None else ())
    ]
    note = "Paired: the same test rows, and seeds, resampled together. Negative favours the first."
    return Table("contest_differences", "Contest: differences", columns, rows, note)


def contest_lines(run: Run) -> Iterator[str]:
    """How far it is, in sentences."""
    board = run.contest
    if board is None:
        yield "no arm has ended yet"
        return
    for arm in board.arms:
        yield f"{arm.arm}: {len(arm.seeds)} of {len(board.seeds)} seeds, test log loss {arm.test}; {winners(arm) or 'no winner'}"
    if board.missing:
        yield f"still to run: {', '.join(board.missing)}"
    yield board.verdict
