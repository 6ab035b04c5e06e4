"""What `recnas search` and `recnas compare` print of the origins of a rolling split."""

from __future__ import annotations

from recnas.cli.options import print_json, table
from recnas.runs.results import Spread
from recnas.runs.rolling import RolledModel, RollingResult


def show(result: RollingResult, out: str, as_json: bool) -> int:
    if as_json:
        print_json(result.to_json())
        return 0
    count = len(result.origins)
    header = ["model", "test log loss", "AUC", "by origin"]
    if result.reference is not None:
        header += [f"vs {result.reference}", "95 % interval", "verdict"]
    print(table([_cells(model, result) for model in result.models], header))
    for model in result.models:
        for origin, key in zip(result.origins, model.winners):
            print(f"{origin}: {key}")
    for label, reason in result.failed.items():
        print(f"not in the table: {label}: {reason}")
    if count < 2:
        print("one origin: there is no spread over time; prepare with --origins 3 or more")
    elif result.reference is not None:
        print(f"intervals are over {count} origins: the same window of the log for both models (Student's t)")
    print(
        f"{count} origin(s); everything: {out}/origins.csv, result.json, and each origin's own run: {out}/origin-1 ..."
    )
    return 0


def _cells(model: RolledModel, result: RollingResult) -> list[str]:
    loss, auc = (model.test.get(name) or Spread(mean=None) for name in ("logloss", "auc"))
    each = " ".join("-" if value is None else f"{value:.5f}" for value in loss.values)
    cells = [model.model, str(loss), str(auc), each]
    if result.reference is None:
        return cells
    gap = model.difference
    if gap is None:
        return [*cells, "-", "-", "reference" if model.model == result.reference else "-"]
    interval = "-" if gap.interval is None else "[{:+.5f}, {:+.5f}]".format(*gap.interval)
    verdict = "no real difference" if not gap.real else "better" if gap.mean < 0 else "worse"
    return [*cells, f"{gap.mean:+.5f}", interval, "-" if gap.interval is None else verdict]
