"""Drawings of outcomes and data: nothing is computed here that a table does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recnas.report.rows_svg import Dot, bars, dots
from recnas.report.svg import Axis, Chart
from recnas.report.table import Row, Table, number, short
from recnas.report.theme import STEPS

MOST_PANELS = 12
_SHOWN_NAMES = 14  # labels in one chart


@dataclass(frozen=True)
class Figure:
    """A drawing, the table it shows and a sentence about how to read it. `stem` names its files."""

    stem: str
    title: str
    svg: str
    table: Table
    note: str = ""


def leaderboard_figures(table: Table) -> list[Figure]:
    rows = [row for row in table.rows if row["test_logloss"] is not None]
    found = []
    if rows:
        drawn = [
            Dot(row["model"], row["test_logloss"], f"{row['model']}: {number(row['test_logloss'], 'loss')}", row.get("interval"),
                row.get("values") or (), 1 if row.get("reference") else 0)
            for row in rows
        ]  # fmt: skip
        note = "Large dot: mean over training seeds; bar: its 95 % interval; small dots: single seeds. Lower is better."
        if table.more.get("noise"):
            note += " Shaded: how far the reference moves from seed to seed (one standard deviation); smaller differences may be luck."
        wide = [row["interval"] for row in rows if row.get("interval")]
        if wide and any(
            end[1] - end[0] > 4 * (rows[-1]["test_logloss"] - rows[0]["test_logloss"] + 1e-9) for end in wide
        ):
            note += " Two or three seeds make wide intervals."
        found.append(
            Figure(
                "leaderboard",
                "Test log loss",
                dots("Test log loss", "test log loss", drawn, table.more.get("noise")),
                table,
                note,
            )
        )
    paired = [row for row in rows if row.get("delta") is not None and row.get("delta_interval")]
    if paired:
        drawn = [
            Dot(row["model"], row["delta"], f"{row['model']}: {row['delta']:+.5f} [{row['delta_interval'][0]:+.5f}, {row['delta_interval'][1]:+.5f}], {row['verdict']}",
                row["delta_interval"], colour={"better": 2, "worse": 1}.get(row["verdict"], 0))
            for row in paired
        ]  # fmt: skip
        reference = table.more["reference"]
        svg = dots(f"Difference to {reference}", f"difference in test log loss to {reference}", drawn, zero=True)
        found.append(
            Figure(
                "differences",
                f"Difference to {reference}",
                svg,
                table,
                f"Left of the dashed line is better than {reference}, right of it worse. A bar (95 % interval) that crosses the line means no real difference. Compared on the same test rows and over seeds.",
            )
        )
    return found


def truth_figures(points: Table, summary: Table) -> list[Figure]:
    """One panel per run, warm-up and proxy; the colour of a point is the size of its network."""
    found: list[Figure] = []
    judge, called, kind = (points.more[name] for name in ("judge", "judge_title", "judge_kind"))
    sizes = sorted(row["params"] for row in points.rows if row["params"] is not None)
    panels = list(dict.fromkeys((row["run"], row["share"], row["proxy"]) for row in points.rows))
    for run, share, proxy in panels[:MOST_PANELS]:
        mine = [row for row in points.rows if (row["run"], row["share"], row["proxy"]) == (run, share, proxy)]
        about = next(
            (row for row in summary.rows if (row["run"], row["share"], row["proxy"]) == (run, share, proxy)),
            {},
        )
        title = f"{proxy}{_warmup(share)}" + (f", {run}" if len({p[0] for p in panels}) > 1 else "")
        chart = Chart(
            title,
            Axis.around(proxy, [row["score"] for row in mine]),
            Axis.around(called, [row[judge] for row in mine]),
        )
        for step in range(STEPS):
            part = [row for row in mine if _step(row["params"], sizes) == step]
            chart.points(
                [
                    (
                        row["score"],
                        row[judge],
                        f"{row['key']}: {proxy} {short(row['score'])}, {called} {number(row[judge], kind)}, {row['params'] or 0:,.0f} parameters",
                    )
                    for row in part
                ],
                f"dot s{step}",
                5,
            )
        if sizes:
            chart.legend(f"{short(sizes[0])} parameters", "s0")
            chart.legend(short(sizes[-1]), f"s{STEPS - 1}")
        found.append(
            Figure(
                f"truth_{len(found) + 1}",
                title,
                chart.render(),
                part_of(points, mine),
                _correlation_note(about),
            )
        )
    known = [row for row in summary.rows if row.get("spearman") is not None]
    if len(known) > 1:
        drawn = []
        for row in known[:40]:
            name = row["proxy"] + (f" {100 * row['share']:g} %" if row.get("share") is not None else "")
            if sum((other["proxy"], other.get("share")) == (row["proxy"], row.get("share")) for other in known) > 1:
                name += f", {Path(row['run']).name}"
            interval = row.get("spearman_interval")
            said = (
                f"{name}: Spearman {row['spearman']:+.2f}"
                + (f" [{interval[0]:+.2f}, {interval[1]:+.2f}]" if interval else "")
                + f", {row['n']} architectures"
            )
            drawn.append(Dot(name, row["spearman"], said, interval))
        found.append(
            Figure(
                "rank_correlation",
                "Rank correlation with the truth",
                dots("Rank correlation with the truth", "Spearman", drawn, zero=True),
                summary,
                summary.note,
            )
        )
    return found


def _warmup(share: float | None) -> str:
    """Of the title of a panel; networks for images have no supernet that is warmed up."""
    if share is None:
        return ""
    return f", {100 * share:g} % warm-up" if share else ", no warm-up"


def _step(size: float | None, sizes: Sequence[float]) -> int:
    if size is None or not sizes or sizes[0] == sizes[-1]:
        return STEPS // 2
    return min(STEPS - 1, int(STEPS * (size - sizes[0]) / (sizes[-1] - sizes[0])))


def _correlation_note(row: Row) -> str:
    if row.get("spearman") is None:
        why = str(row.get("reason") or "no rank correlation is known")
        return f"{why[:1].upper()}{why[1:]}. Colour shows the size of the network."
    interval = row.get("spearman_interval")
    spread = f" (95 % interval {interval[0]:+.2f} to {interval[1]:+.2f})" if interval else ""
    return f"Spearman {row['spearman']:+.2f}{spread} over {row['n']} trained networks; +1 means the score ranks them perfectly. Colour shows the size of the network."


def pareto_figure(table: Table) -> list[Figure]:
    rows = [row for row in table.rows if row["flops"]]
    if not rows:
        return []
    judge, called, kind = (table.more[name] for name in ("judge", "judge_title", "judge_kind"))
    chart = Chart(
        table.title,
        Axis.around(table.more["flops_title"], [row["flops"] for row in rows], log=True),
        Axis.around(called, [row[judge] for row in rows]),
    )
    front = sorted((row["flops"], row[judge]) for row in rows if row["front"])
    chart.line(front, "line grey", steps=True)
    styles = {"sampled": ("dot fgrey", "fgrey", 3.0, "circle"), "candidate": ("dot f0", "f0", 4.0, "circle"), "baseline": ("dot f1", "f1", 5.0, "diamond"),
              "searched": ("dot f3", "f3", 6.0, "circle"), "winner": ("dot f2", "f2", 6.0, "circle")}  # fmt: skip
    for what, (classes, legend, radius, shape) in styles.items():
        mine = [row for row in rows if row["what"] == what]
        spread = {
            id(row): f" ± {number(row[f'{judge}_std'], kind)}" if row.get(f"{judge}_std") is not None else ""
            for row in mine
        }
        chart.points(
            [
                (
                    row["flops"],
                    row[judge],
                    f"{row['model']} ({what}): {called} {number(row[judge], kind)}{spread[id(row)]}, {short(row['flops'])} FLOPs",
                )
                for row in mine
            ],
            classes,
            radius,
            shape,
        )
        if mine:
            chart.legend(what, legend)
        if what in ("baseline", "searched", "winner"):
            for row in mine[:_SHOWN_NAMES]:
                chart.label(
                    row["flops"],
                    row[judge],
                    row["model"] if what != "searched" else row["model"].rsplit("/", 1)[-1],
                )
    return [
        Figure(
            "pareto",
            table.title,
            chart.render(),
            table,
            table.note + " The grey line joins the front: what no other beats in both.",
        )
    ]


def part_of(table: Table, rows: list[Row]) -> Table:
    """The same table with some of its rows."""
    return Table(table.name, table.title, table.columns, rows, table.note, table.more)


def data_figures(splits: Table, columns: Table) -> list[Figure]:
    found = []
    if splits:
        drawn = [
            Dot(
                row["split"],
                row["click_rate"],
                f"{row['split']}: {number(row['click_rate'], 'share')} of {row['rows']:,} rows",
                row["interval"],
            )
            for row in splits.rows
            if row["click_rate"] is not None
        ]
        found.append(
            Figure(
                "click_rate",
                "Click rate of every split",
                dots("Click rate", "click rate", drawn),
                splits,
                "Bars: 95 % intervals. Where two bars do not overlap, the splits differ by more than chance.",
            )
        )
    ordered = sorted(columns.rows, key=lambda row: -row["bytes"])[:40]
    if ordered:
        found.append(
            Figure(
                "table_memory",
                "Memory of the embedding tables",
                bars(
                    "Memory of the embedding tables",
                    "MB",
                    [
                        (
                            row["column"],
                            row["bytes"] / 1e6,
                            f"{row['column']}: {row['rows']:,} rows, {number(row['bytes'], 'mb')}",
                        )
                        for row in ordered
                    ],
                ),
                columns,
                columns.note,
            )
        )
        unknown = sorted(
            (row for row in columns.rows if row.get("unknown_test") is not None),
            key=lambda row: -row["unknown_test"],
        )[:40]
        if unknown:
            found.append(
                Figure(
                    "unknown_share",
                    "Test cells with an unknown id",
                    bars(
                        "Unknown ids in test",
                        "share of test rows",
                        [
                            (
                                row["column"],
                                row["unknown_test"],
                                f"{row['column']}: {number(row['unknown_test'], 'share')} of test, {number(row.get('unknown_train') or 0.0, 'share')} of training",
                            )
                            for row in unknown
                        ],
                        3,
                    ),
                    columns,
                    "Unknown: values that were too rare in training to get an embedding of their own. A column that is mostly unknown tells a model little.",
                )
            )
    return found
