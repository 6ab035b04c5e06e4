"""Drawings of the tables: nothing is computed here that a table does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recnas.report.rows_svg import Dot, bars, dots
from recnas.report.svg import Axis, Chart
from recnas.report.table import Row, Table, number, short
from recnas.report.theme import SERIES, STEPS

MOST_POINTS = 600  # drawn of one search; the CSV has all
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


def trajectory_figures(table: Table) -> list[Figure]:
    """Best-so-far against candidates and against seconds."""
    found = []
    for name, title in (("evaluations", "candidates scored"), ("seconds", "seconds of scoring")):
        if not table or (name == "seconds" and not any(row["seconds"] for row in table.rows)):
            continue
        everything = [row["best"] for row in table.rows]
        chart = Chart(f"Best score against {title}", Axis.around(title, [0.0, *(row[name] for row in table.rows)], zero=True),
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
            chart.line(_thinned(mine, name), f"{'line' if alone else 'thin'} {stroke}", steps=not expected and not averaged)
            if not averaged and not expected:
                improved = [row for before, row in zip([None, *mine], mine) if before is None or before["best"] != row["best"]]
                chart.points([(row[name], row["best"], f"{label}: {short(row['best'])} after {row['evaluations']:,} candidates, {row['seconds']:,.1f} s") for row in improved], f"dot {fill}", 3)
            chart.legend(label, fill)
            colour += 0 if grey else 1
        found.append(Figure(f"trajectory_{name}", f"Best score so far, against {title}", chart.render(), table, table.note))
    return found


def _thinned(rows: Sequence[Row], name: str) -> list[tuple[float, float]]:
    """Only where the line turns: a flat stretch needs its two ends."""
    found: list[tuple[float, float]] = []
    for place, row in enumerate(rows):
        ends = place in (0, len(rows) - 1)
        if ends or rows[place - 1]["best"] != row["best"] or rows[place + 1]["best"] != row["best"]:
            found.append((row[name], row["best"]))
    return found


def leaderboard_figures(table: Table) -> list[Figure]:
    rows = [row for row in table.rows if row["test_logloss"] is not None]
    found = []
    if rows:
        drawn = [
            Dot(row["model"], row["test_logloss"], f"{row['model']}: {number(row['test_logloss'], 'loss')}", row.get("interval"),
                row.get("values") or (), 1 if row.get("verdict") == "reference" else 0)
            for row in rows
        ]  # fmt: skip
        note = "Dot: mean over seeds; bar: its 95 % interval; small dots: single seeds. Lower is better."
        if table.more.get("noise"):
            note += " Shaded: one standard deviation over seeds around the reference, the noise a difference must exceed."
        wide = [row["interval"] for row in rows if row.get("interval")]
        if wide and any(end[1] - end[0] > 4 * (rows[-1]["test_logloss"] - rows[0]["test_logloss"] + 1e-9) for end in wide):
            note += " Two or three seeds make wide intervals."
        found.append(Figure("leaderboard", "Test log loss", dots("Test log loss", "test log loss", drawn, table.more.get("noise")), table, note))
    paired = [row for row in rows if row.get("delta") is not None and row.get("delta_interval")]
    if paired:
        drawn = [
            Dot(row["model"], row["delta"], f"{row['model']}: {row['delta']:+.5f} [{row['delta_interval'][0]:+.5f}, {row['delta_interval'][1]:+.5f}], {row['verdict']}",
                row["delta_interval"], colour={"better": 2, "worse": 1}.get(row["verdict"], 0))
            for row in paired
        ]  # fmt: skip
        reference = table.more["reference"]
        svg = dots(f"Difference to {reference}", f"test log loss less that of {reference}", drawn, zero=True)
        found.append(Figure("differences", f"Difference to {reference}", svg, table, "Paired on the same test rows and over seeds, 95 % intervals. Left of the dashed line is better; an interval across it is no real difference."))
    return found


def truth_figures(points: Table, summary: Table) -> list[Figure]:
    """One panel per run, warm-up and proxy; the colour of a point is the size of its network."""
    found = []
    sizes = sorted(row["params"] for row in points.rows if row["params"] is not None)
    panels = list(dict.fromkeys((row["run"], row["share"], row["proxy"]) for row in points.rows))
    for run, share, proxy in panels[:MOST_PANELS]:
        mine = [row for row in points.rows if (row["run"], row["share"], row["proxy"]) == (run, share, proxy)]
        about = next((row for row in summary.rows if (row["run"], row["share"], row["proxy"]) == (run, share, proxy)), {})
        title = f"{proxy}, {'no' if not share else f'{100 * share:g} %'} warm-up" + (f", {run}" if len({p[0] for p in panels}) > 1 else "")
        chart = Chart(title, Axis.around(proxy, [row["score"] for row in mine]), Axis.around("validation log loss", [row["valid_logloss"] for row in mine]))
        for step in range(STEPS):
            part = [row for row in mine if _step(row["params"], sizes) == step]
            chart.points([(row["score"], row["valid_logloss"], f"{row['key']}: {proxy} {short(row['score'])}, validation log loss {row['valid_logloss']:.5f}, {row['params'] or 0:,} parameters") for row in part], f"dot s{step}", 5)
        if sizes:
            chart.legend(f"{short(sizes[0])} parameters", "s0")
            chart.legend(short(sizes[-1]), f"s{STEPS - 1}")
        found.append(Figure(f"truth_{len(found) + 1}", title, chart.render(), _part(points, mine), _correlation_note(about)))
    known = [row for row in summary.rows if row.get("spearman") is not None]
    if len(known) > 1:
        drawn = []
        for row in known[:40]:
            name = row["proxy"] + (f" {100 * row['share']:g} %" if row.get("share") is not None else "")
            interval = row.get("spearman_interval")
            said = f"{name}: Spearman {row['spearman']:+.2f}" + (f" [{interval[0]:+.2f}, {interval[1]:+.2f}]" if interval else "") + f", {row['n']} architectures"
            drawn.append(Dot(name, row["spearman"], said, interval))
        found.append(Figure("rank_correlation", "Rank correlation with the truth", dots("Rank correlation with the truth", "Spearman", drawn, zero=True), summary, summary.note))
    return found


def _step(size: float | None, sizes: Sequence[float]) -> int:
    if size is None or not sizes or sizes[0] == sizes[-1]:
        return STEPS // 2
    return min(STEPS - 1, int(STEPS * (size - sizes[0]) / (sizes[-1] - sizes[0])))


def _correlation_note(row: Row) -> str:
    if row.get("spearman") is None:
        return f"No rank correlation: {row.get('reason') or 'not known'}."
    interval = row.get("spearman_interval")
    spread = f" (95 % interval {interval[0]:+.2f} to {interval[1]:+.2f})" if interval else ""
    return f"Spearman {row['spearman']:+.2f}{spread} over {row['n']} trained networks; +1 means the score ranks them perfectly. Darker (lighter at night): larger network."


def pareto_figure(table: Table) -> list[Figure]:
    rows = [row for row in table.rows if row["flops"]]
    if not rows:
        return []
    chart = Chart(table.title, Axis.around("FLOPs per row", [row["flops"] for row in rows], log=True), Axis.around("validation log loss", [row["valid_logloss"] for row in rows]))
    front = sorted((row["flops"], row["valid_logloss"]) for row in rows if row["front"])
    chart.line(front, "line grey", steps=True)
    styles = {"sampled": ("dot fgrey", "fgrey", 3.0, "circle"), "candidate": ("dot f0", "f0", 4.0, "circle"), "baseline": ("dot f1", "f1", 5.0, "diamond"),
              "searched": ("dot f2", "f2", 6.0, "circle"), "winner": ("dot f2", "f2", 6.0, "circle")}  # fmt: skip
    for what, (classes, legend, radius, shape) in styles.items():
        mine = [row for row in rows if row["what"] == what]
        spread = {id(row): f" ± {row['valid_logloss_std']:.5f}" if row.get("valid_logloss_std") is not None else "" for row in mine}
        chart.points([(row["flops"], row["valid_logloss"], f"{row['model']} ({what}): validation log loss {row['valid_logloss']:.5f}{spread[id(row)]}, {short(row['flops'])} FLOPs") for row in mine], classes, radius, shape)
        if mine:
            chart.legend(what, legend)
        if what in ("baseline", "searched", "winner"):
            for row in mine[:_SHOWN_NAMES]:
                chart.label(row["flops"], row["valid_logloss"], row["model"] if what != "searched" else row["model"].rsplit("/", 1)[-1])
    return [Figure("pareto", table.title, chart.render(), table, table.note + " The grey line is the front: nothing is better in both.")]


def candidate_figure(table: Table, stem: str) -> list[Figure]:
    if not table:
        return []
    goal = table.more["goal"]
    shown = [row for place, row in enumerate(table.rows) if row["front"] or place % (1 + len(table.rows) // MOST_POINTS) == 0]
    chart = Chart(table.title, Axis.around("FLOPs per row", [row["flops"] for row in table.rows], log=True), Axis.around(goal, [row["value"] for row in table.rows]))
    front = sorted((row["flops"], row["value"]) for row in table.rows if row["front"])
    for name, classes, radius in (("first, random", "fgrey dot", 3.0), ("later", "f0 dot", 3.0), ("front", "f2 dot", 4.5)):
        mine = [row for row in shown if (name == "front") == row["front"] and (row["front"] or (row["origin"] in ("init", "random")) == (name == "first, random"))]
        chart.points([(row["flops"], row["value"], f"candidate {row['number']}: {goal} {short(row['value'])}, {short(row['flops'])} FLOPs") for row in mine], classes, radius)
        if mine:
            chart.legend(name, classes.split()[0])
    chart.line(front, "thin c2", steps=True)
    note = table.note + (f" Drawn: the front and every {1 + len(table.rows) // MOST_POINTS}th of the others." if len(shown) < len(table.rows) else "")
    return [Figure(stem, table.title, chart.render(), table, note)]


def term_figures(table: Table, stem: str, label: str) -> list[Figure]:
    found = []
    names = {"zico": "gradient mean over std (zico)", "fr": "Fisher-Rao norm (fr)", "loss": "training loss"}
    for proxy, term in dict.fromkeys((row["proxy"], row["term"]) for row in table.rows):
        mine = [row for row in table.rows if (row["proxy"], row["term"]) == (proxy, term)]
        title = f"{proxy}: {names.get(term, term)}" + (f", {label}" if label else "")
        chart = Chart(title, Axis.around("candidates", [0, *(row["evaluations"] for row in mine)], zero=True), Axis.around(term, [v for row in mine for v in (row["low"], row["high"])]), height=240)
        colour = {"zico": 0, "fr": 3, "loss": 1}.get(term, 4)
        chart.band([(row["evaluations"], row["low"], row["high"]) for row in mine], f"f{colour}")
        chart.line([(row["evaluations"], row["median"]) for row in mine], f"line c{colour}")
        chart.points([(row["evaluations"], row["median"], f"{term} {short(row['median'])}, middle half {short(row['low'])} to {short(row['high'])} ({row['n']} candidates)") for row in mine], f"dot f{colour}", 2.5)
        found.append(Figure(f"{stem}_{proxy}_{term}", title, chart.render(), _part(table, mine), table.note))
    return found


def _part(table: Table, rows: list[Row]) -> Table:
    return Table(table.name, table.title, table.columns, rows, table.note, table.more)


def family_figure(table: Table, others: Table, stem: str, goal: str) -> list[Figure]:
    """Score along the winner's ancestors, with the children that did not lead on in grey."""
    rows = [row for row in table.rows if row["value"] is not None]
    if len(rows) < 2:
        return []
    by_step = {row["generation"]: row for row in rows}
    chart = Chart(table.title, Axis.around("step from the random ancestor", [0, *(row["generation"] for row in [*rows, *others.rows])]), Axis.around(goal, [row["value"] for row in [*rows, *others.rows]]))
    drawn = others.rows[:MOST_POINTS]
    for row in drawn:
        if row["generation"] - 1 in by_step:
            chart.line([(row["generation"] - 1, by_step[row["generation"] - 1]["value"]), (row["generation"], row["value"])], "thin grey")
    chart.points([(row["generation"], row["value"], f"candidate {row['number']}, child of {row['parent']}: {short(row['value'])}") for row in drawn], "dot fgrey", 2.5)
    chart.line([(row["generation"], row["value"]) for row in rows], "line c2")
    chart.points([(row["generation"], row["value"], f"candidate {row['number']}: {short(row['value'])}. {row['what']}") for row in rows], "dot f2", 5)
    chart.legend("line of the winner", "f2")
    chart.legend("other children", "fgrey")
    return [Figure(stem, table.title, chart.render(), table, table.note)]


def data_figures(splits: Table, columns: Table) -> list[Figure]:
    found = []
    if splits:
        drawn = [Dot(row["split"], row["click_rate"], f"{row['split']}: {number(row['click_rate'], 'share')} of {row['rows']:,} rows", row["interval"]) for row in splits.rows if row["click_rate"] is not None]
        found.append(Figure("click_rate", "Click rate of every split", dots("Click rate", "click rate", drawn), splits, "Bars: 95 % intervals. Splits whose intervals lie apart are not drawn alike."))
    ordered = sorted(columns.rows, key=lambda row: -row["bytes"])[:40]
    if ordered:
        found.append(Figure("table_memory", "Memory of the embedding tables", bars("Memory of the embedding tables", "MB", [(row["column"], row["bytes"] / 1e6, f"{row['column']}: {row['rows']:,} rows, {number(row['bytes'], 'mb')}") for row in ordered]), columns, columns.note))
        unknown = sorted((row for row in columns.rows if row.get("unknown_test") is not None), key=lambda row: -row["unknown_test"])[:40]
        if unknown:
            found.append(Figure("unknown_share", "Test cells with an unknown id", bars("Unknown ids in test", "share of test rows", [(row["column"], row["unknown_test"], f"{row['column']}: {number(row['unknown_test'], 'share')} of test, {number(row.get('unknown_train') or 0.0, 'share')} of training") for row in unknown], 3), columns, "A column that is mostly unknown carries little; its ids were too rare in training to keep."))
    return found


def curve_figure(table: Table) -> list[Figure]:
    """Training loss of the winner, one line per seed."""
    if len(table.rows) < 2:
        return []
    chart = Chart(table.title, Axis.around("step", [0, *(row["step"] for row in table.rows)], zero=True), Axis.around("training log loss", [row["loss"] for row in table.rows]), height=240)
    for place, name in enumerate(dict.fromkeys(row["series"] for row in table.rows)):
        mine = [row for row in table.rows if row["series"] == name]
        chart.line([(row["step"], row["loss"]) for row in mine], f"line c{place % SERIES}")
        chart.points([(row["step"], row["loss"], f"{name}, step {row['step']:,}: {row['loss']:.5f}") for row in mine], f"dot f{place % SERIES}", 2)
        chart.legend(name, f"f{place % SERIES}")
    return [Figure("training_curve", table.title, chart.render(), table, table.note)]
