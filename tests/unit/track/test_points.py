"""Lines of a ledger become points: which curve, which step, which value."""

from __future__ import annotations

from recnas.runs.records import (
    Candidate,
    ModelTraining,
    PhaseBegun,
    PhaseDone,
    RungTraining,
    ScoreRecord,
    SeedTraining,
    Trained,
)
from recnas.track.points import Points

ARCH: dict = {"space": "any"}


def test_candidates_stand_at_their_number():
    line = Candidate(
        index=7, key="k", arch=ARCH, origin="random", values={"sigeo": 3.0, "params": 5.0},
        scores={"sigeo": ScoreRecord(value=3.0), "naswot": ScoreRecord(value=2.0)}, cost={"params": 5.0},
    )  # fmt: skip
    found = Points().of(line)
    assert sorted(found) == [("candidates/naswot", 7, 2.0), ("candidates/params", 7, 5.0), ("candidates/sigeo", 7, 3.0)]
    failed = line.model_copy(update={"values": None, "scores": {}, "cost": {}, "failed": "why"})
    assert Points().of(failed) == []


def test_curves_of_a_training():
    line = SeedTraining(
        seed=2, train_curve=[(100, 0.6), (200, 0.5)], checks=[{"step": 150, "logloss": 0.55, "auc": None}],
        valid={"logloss": 0.5, "rows": 10, "clicks": 3}, test={"auc": 0.7},
    )  # fmt: skip
    assert Points("winner/").of(line) == [
        ("winner/train/loss/seed-2", 100, 0.6),
        ("winner/train/loss/seed-2", 200, 0.5),
        ("winner/valid/logloss/seed-2", 150, 0.55),
        ("winner/final/valid/logloss", 2, 0.5),
        ("winner/final/test/auc", 2, 0.7),
    ]


def test_trials_finals_rungs_and_finalists():
    trial = ModelTraining(event="trial", id="lr", model="lr", choice={}, seed=0, trial=3, valid={"logloss": 0.4})
    final = ModelTraining(
        event="seed", id="lr", model="lr", choice={}, seed=1, valid={"logloss": 0.3}, test={"logloss": 0.2},
        checks=[{"step": 5, "logloss": 0.3}],
    )  # fmt: skip
    points = Points()
    assert points.of(trial) == [("lr/trials/valid/logloss", 3, 0.4)]
    assert points.of(final) == [
        ("lr/valid/logloss/seed-1", 5, 0.3),
        ("lr/final/valid/logloss", 1, 0.3),
        ("lr/final/test/logloss", 1, 0.2),
    ]
    rung = RungTraining(entrant=4, rung=1, seed=0, steps=9, trained_rows=900, valid={"logloss": 0.6})
    assert points.of(rung) == [("race/logloss/entrant-4-seed-0", 900, 0.6)]
    finalist = Trained(index=9, key="k", arch=ARCH, seed=0, valid={"logloss": 0.5})
    assert [points.of(finalist)[0].step for _ in range(3)] == [0, 1, 2]
    assert points.of(PhaseBegun(name="search", at=1.0)) == []
    assert points.of(PhaseDone(name="search", seconds=4.0)) == [("seconds/search", 0, 4.0)]


def test_a_curve_of_each_label():
    valid = {"logloss": 0.5, "logloss:click": 0.3, "clicks:click": 7, "rows": 10}
    line = SeedTraining(seed=0, train_curve=[], checks=[{"step": 2, "auc:click": 0.6}], valid=valid, test=None)
    assert Points().of(line) == [
        ("valid/auc/click/seed-0", 2, 0.6),
        ("final/valid/logloss", 0, 0.5),
        ("final/valid/logloss/click", 0, 0.3),
    ]
