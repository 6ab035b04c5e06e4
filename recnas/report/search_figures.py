"""Drawings of what happened during a search."""

from __future__ import annotations

from collections.abc import Sequence

from recnas.report.figures import Figure, part_of
from recnas.report.svg import Axis, Chart
from recnas.report.table import Row, Table, short
from recnas.report.theme import SERIES

MOST_POINTS = 600  # drawn of one search; the CSV has all


def trajectory_figures(table: Table) -> list[Figure]:
    """Best-so-far against candidates and against seconds."""
    found = []
    for name, title in (("evaluations", "candidates scored"), ("seconds", "seconds of scoring")):
        if not table or (name == "seconds" and not any(row["seconds"] for row in table.rows)):
            continue
        everything = [row["best"] for row in table.rows]
        chart = Chart(f"{table.title}, against {title}", Axis.around(title, [0.0, *(row[name] for row in table.rows)], zero=True),
                      Axis.around(table.more["goal"], everything))  # fmt: skip
        colour = 0
        series = list(dict.fromkeys(row["series"] for row in table.rows))
        for label in sorted(series, key=lambda s: not any(row["random"] for row in table.rows if row["series"] == s)):
            mine = [row for row in table.rows if row["series"] == label]
            grey = bool(mine[0]["random"])
            averaged = "low" in mine[0]
            stroke, fill = ("grey", "fgrey") if grey else (f"c{colour % SERIES}", f"f{colour % SERIES}")
            if averaged:
                chart.band([(row[name], row["low"], row["high"]) for row in mine], fill)
            expected = label.endswith("(expected)")
            alone = averaged or not any(s.startswith("mean of") for s in series) or len(series) < 4
            chart.line(
                _thinned(mine, name),
                f"{'line' if alone else 'thin'} {stroke}",
                steps=not expected and not averaged,
            )
            if not averaged and not expected:
                improved = [
                    row for before, row in zip([None, *mine], mine) if before is None or before["best"] != row["best"]
                ]
                chart.points(
                    [
                        (
                            row[name],
                            row["best"],
                            f"{label}: {short(row['best'])} after {row['evaluations']:,} candidates, {row['seconds']:,.1f} s",
                        )
                        for row in improved
                    ],
                    f"dot {fill}",
                    3,
                )
            chart.legend(label, fill)
            colour += 0 if grey else 1
        found.append(Figure(f"trajectory_{name}", f"{table.title}, against {title}", chart.render(), table, table.note))
    return found


def _thinned(rows: Sequence[Row], name: str) -> list[tuple[float, float]]:
    """Only where the line turns: a flat stretch needs its two ends."""
    found: list[tuple[float, float]] = []
    for place, row in enumerate(rows):
        ends = place in (0, len(rows) - 1)
        if ends or rows[place - 1]["best"] != row["best"] or rows[place + 1]["best"] != row["best"]:
            found.append((row[name], row["best"]))
    return found


def candidate_figure(table: Table, stem: str) -> list[Figure]:
    if not table:
        return []
    goal = table.more["goal"]
    shown = [
        row for place, row in enumerate(table.rows) if row["front"] or place % (1 + len(table.rows) // MOST_POINTS) == 0
    ]
    chart = Chart(
        table.title,
        Axis.around(table.more["flops_title"], [row["flops"] for row in table.rows], log=True),
        Axis.around(goal, [row["value"] for row in table.rows]),
    )
    front = sorted((row["flops"], row["value"]) for row in table.rows if row["front"])
    for name, classes, radius in (
        ("first, random", "fgrey dot", 3.0),
        ("later", "f0 dot", 3.0),
        ("front", "f2 dot", 4.5),
    ):
        mine = [
            row
            for row in shown
            if (name == "front") == row["front"]
            and (row["front"] or (row["origin"] in ("init", "random")) == (name == "first, random"))
        ]
        chart.points(
            [
                (
                    row["flops"],
                    row["value"],
                    f"candidate {row['number']}: {goal} {short(row['value'])}, {short(row['flops'])} FLOPs",
                )
                for row in mine
            ],
            classes,
            radius,
        )
        if mine:
            chart.legend(name, classes.split()[0])
    chart.line(front, "thin c2", steps=True)
    note = table.note + (
        f" Drawn: the front and every {1 + len(table.rows) // MOST_POINTS}th of the others."
        if len(shown) < len(table.rows)
        else ""
    )
    return [Figure(stem, table.title, chart.render(), table, note)]


def term_figures(table: Table, stem: str, label: str) -> list[Figure]:
    found = []
    names = {"zico": "gradient mean over std (zico)", "fr": "Fisher-Rao norm (fr)", "loss": "training loss"}
    for proxy, term in dict.fromkeys((row["proxy"], row["term"]) for row in table.rows):
        mine = [row for row in table.rows if (row["proxy"], row["term"]) == (proxy, term)]
        title = f"{proxy}: {names.get(term, term)}" + (f", {label}" if label else "")
        chart = Chart(
            title,
            Axis.around("candidates", [0, *(row["evaluations"] for row in mine)], zero=True),
            Axis.around(term, [v for row in mine for v in (row["low"], row["high"])]),
            height=240,
        )
        colour = {"zico": 0, "fr": 3, "loss": 1}.get(term, 4)
        chart.band([(row["evaluations"], row["low"], row["high"]) for row in mine], f"f{colour}")
        chart.line([(row["evaluations"], row["median"]) for row in mine], f"line c{colour}")
        chart.points(
            [
                (
                    row["evaluations"],
                    row["median"],
                    f"{term} {short(row['median'])}, middle half {short(row['low'])} to {short(row['high'])} ({row['n']} candidates)",
                )
                for row in mine
            ],
            f"dot f{colour}",
            2.5,
        )
        found.append(Figure(f"{stem}_{proxy}_{term}", title, chart.render(), part_of(table, mine), table.note))
    return found


def family_figure(table: Table, others: Table, stem: str, goal: str) -> list[Figure]:
    """Score along the winner's ancestors, with the children that did not lead on in grey."""
    rows = [row for row in table.rows if row["value"] is not None]
    if len(rows) < 2:
        return []
    by_step = {row["generation"]: row for row in rows}
    chart = Chart(
        table.title,
        Axis.around("step from the random ancestor", [0, *(row["generation"] for row in [*rows, *others.rows])]),
        Axis.around(goal, [row["value"] for row in [*rows, *others.rows]]),
    )
    drawn = others.rows[:MOST_POINTS]
    for row in drawn:
        if row["generation"] - 1 in by_step:
            chart.line(
                [
                    (row["generation"] - 1, by_step[row["generation"] - 1]["value"]),
                    (row["generation"], row["value"]),
                ],
                "thin grey",
            )
    chart.points(
        [
            (
                row["generation"],
                row["value"],
                f"candidate {row['number']}, child of {row['parent']}: {short(row['value'])}",
            )
            for row in drawn
        ],
        "dot fgrey",
        2.5,
    )
    chart.line([(row["generation"], row["value"]) for row in rows], "line c2")
    chart.points(
        [
            (
                row["generation"],
                row["value"],
                f"candidate {row['number']}: {short(row['value'])}. {row['what']}",
            )
            for row in rows
        ],
        "dot f2",
        5,
    )
    chart.legend("line of the winner", "f2")
    chart.legend("other children", "fgrey")
    return [Figure(stem, table.title, chart.render(), table, table.note)]


def curve_figure(table: Table) -> list[Figure]:
    """Training loss of the winner, one line per seed."""
    if len(table.rows) < 2:
        return []
    chart = Chart(
        table.title,
        Axis.around("step", [0, *(row["step"] for row in table.rows)], zero=True),
        Axis.around("training log loss", [row["loss"] for row in table.rows]),
        height=240,
    )
    for place, name in enumerate(dict.fromkeys(row["series"] for row in table.rows)):
        mine = [row for row in table.rows if row["series"] == name]
        chart.line([(row["step"], row["loss"]) for row in mine], f"line c{place % SERIES}")
        chart.points(
            [(row["step"], row["loss"], f"{name}, step {row['step']:,}: {row['loss']:.5f}") for row in mine],
            f"dot f{place % SERIES}",
            2,
        )
        chart.legend(name, f"f{place % SERIES}")
    return [Figure("training_curve", table.title, chart.render(), table, table.note)]
