"""What a report says, in order: the same for HTML, for Markdown and for the files beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recnas.errors import RecnasError
from recnas.report import (
    contest,
    data_info,
    facts,
    figures,
    leaderboard,
    outcome_info,
    search_figures,
    search_info,
)
from recnas.report.draw import draw, parse
from recnas.report.figures import Figure
from recnas.report.not_done import not_done
from recnas.report.race import raced_both
from recnas.report.ranking import Ranking
from recnas.report.svg import standalone
from recnas.report.table import METRIC_NAMES, Table
from recnas.report.trajectory import trajectory
from recnas.report.verdict import Verdict, verdict
from recnas.runs.read import read_inputs
from recnas.runs.run import CTR, Run

RECIPE = "recipe.yaml"  # among the files, if it is the user's own
MOST_DRAWN = 4  # winners
MOST_DETAILED = 4  # searches with pictures of their own


@dataclass(frozen=True)
class Code:
    """Text to be typed or kept as it is; `folded` hides it behind its title."""

    title: str
    text: str
    folded: bool = False


@dataclass(frozen=True)
class Lines:
    items: list[str]


Item = Figure | Table | Code | Lines


@dataclass(frozen=True)
class Section:
    id: str
    title: str
    intro: str = ""
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    verdict: Verdict
    runs: list[Run]
    sections: list[Section]
    unseen: list[Table]  # only among the files: too long to show

    def figures(self) -> Iterator[Figure]:
        return (item for section in self.sections for item in section.items if isinstance(item, Figure))

    def tables(self) -> Iterator[Table]:
        yield from (item for section in self.sections for item in section.items if isinstance(item, Table))
        yield from self.unseen


def make_report(paths: Sequence[Path | str], files: str = "report_files") -> Report:
    """Read the runs and decide what to say. `files` is how the report will name the folder beside it."""
    runs, tables = read_inputs(paths)
    board = leaderboard.leaderboard(runs)
    points = outcome_info.truth(runs)
    summary = outcome_info.truth_summary(points, tables)
    unseen: list[Table] = []
    sections = [
        Section(
            "models",
            "Models",
            "",
            [
                contest.arms(runs),
                contest.contest_differences(runs),
                *figures.leaderboard_figures(board),
                board,
                outcome_info.trained_candidates(runs),
            ],
        ),
        Section(
            "winner",
            "The winner",
            ""
            if runs and not any(run.task == CTR for run in runs)
            else "The path of the dense inputs is above, that of the sparse ones below; lines between them are interactions. "
            "A taller box has more outputs. Grey parts are not used.",
            _winners(runs),
        ),
        _search(runs, unseen),
        Section(
            "truth",
            "Does the score tell the truth?",
            points.note if points else "",
            [*figures.truth_figures(points, summary), summary],
        ),
        _cost(runs),
        _data(runs),
        _again(runs, files),
        Section("limits", "What was not done", "", [Lines(not_done(runs))]),
    ]
    said = verdict(runs, board, summary, tables)
    return Report(said, runs, [_without_empty(s) for s in sections if any(map(_has_content, s.items))], unseen)


def _has_content(item: Item) -> bool:
    return bool(item.items) if isinstance(item, Lines) else bool(item.rows) if isinstance(item, Table) else True


def _without_empty(section: Section) -> Section:
    kept = [item.only_shown() if isinstance(item, Table) else item for item in section.items if _has_content(item)]
    return Section(section.id, section.title, section.intro, kept)


def _winners(runs: Sequence[Run]) -> list[Item]:
    found: list[Item] = []
    for run in [run for run in runs if run.kind in ("search", "train")][:MOST_DRAWN]:
        best = Ranking(run).best
        described = run.winner_arch or (best.arch if best is not None else None)
        if described is None:
            continue
        label = f"{run.label}, winner" if run.winner_arch else f"{run.label}, best by score so far"
        try:
            picture = draw([parse(json.dumps(described), label)])
        except RecnasError:
            continue  # an architecture of a kind without a picture
        blocks = [
            {"block": b, **{k: "+".join(map(str, v)) if isinstance(v, list) else v for k, v in block.items()}}
            for b, block in enumerate(described.get("blocks", []), start=1)
        ]
        table = Table("arch", label, (), blocks or [described])
        found.append(
            Figure(
                f"winner_{_stem(run, runs)}",
                label,
                picture,
                table,
                f"As a file: recnas draw {run.path}:best -o best.svg",
            )
        )
        found += _against_hand_crafted(run, runs)
    curve = search_info.curves(runs)
    return [*found, *search_figures.curve_figure(curve)]


def _against_hand_crafted(run: Run, runs: Sequence[Run]) -> list[Item]:
    """Both networks of a race's verdict in one picture, and what differs in words."""
    table = raced_both(run)
    race = run.result.race if run.result is not None else None
    if not table or race is None or race.hand_crafted is None or run.winner_arch is None:
        return []
    known = race.hand_crafted
    both = [parse(json.dumps(known.arch), known.name), parse(json.dumps(run.winner_arch), "the winner")]
    title = f"{known.name} and the winner"
    changes = search_info.differences(known.arch, run.winner_arch)
    figure = Figure(
        f"both_{_stem(run, runs)}", title, draw(both), Table("both", title, (), [{"change": one} for one in changes])
    )
    said = Lines([f"From {known.name} to the winner: {one}." for one in changes])
    return [_named(table, f"raced_both_{_stem(run, runs)}", ""), figure, said]


def _search(runs: Sequence[Run], unseen: list[Table]) -> Section:
    path = trajectory(runs)
    items: list[Item] = [*search_figures.trajectory_figures(path)]
    searches = [run for run in runs if run.is_search]
    alone = len(searches) == 1
    for run in searches[:MOST_DETAILED]:
        stem, label = _stem(run, runs), "" if alone else run.label
        scored = outcome_info.candidates(run)
        items += search_figures.candidate_figure(scored, f"candidates_{stem}")
        terms = search_info.terms(run)
        items += search_figures.term_figures(terms, f"terms_{stem}", label)
        summary = search_info.term_summary(run)
        family = _named(search_info.family(run), f"family_{stem}", label)
        others = _named(search_info.siblings(run, family), f"siblings_{stem}", label)
        unseen += [others] if others else []
        goal = Ranking(run).goal
        items += search_figures.family_figure(family, others, f"family_{stem}", goal[0] if goal else "value")
        items += [_named(summary, f"term_summary_{stem}", label), family]
    more = f"Pictures of the first {MOST_DETAILED} searches only." if len(searches) > MOST_DETAILED else ""
    return Section("search", "The search", more, items)


def _cost(runs: Sequence[Run]) -> Section:
    table = outcome_info.pareto(runs)
    front = Table(
        "front",
        "Best at their cost",
        table.columns,
        [row for row in table.rows if row["front"]],
        f"Nothing else here is better in both {METRIC_NAMES[outcome_info.judged_by(runs).name]} and FLOPs.",
    )
    return Section("cost", table.title, "", [*figures.pareto_figure(table), front])


def _data(runs: Sequence[Run]) -> Section:
    splits, columns = data_info.data_tables(runs)
    note = splits.note if not splits else ""
    warnings = [Lines(found)] if (found := data_info.data_warnings(runs)) else []
    return Section("data", "Data", note, [*warnings, *figures.data_figures(splits, columns), splits, columns])


def _again(runs: Sequence[Run], files: str) -> Section:
    items: list[Item] = []
    prepare = next((line for run in runs if (line := data_info.prepare_command(run, f"{files}/{RECIPE}"))), None)
    if prepare:
        items.append(Code("Prepare the data", prepare))
    for run in runs:
        lines = facts.commands(run, f"{files}/{config_name(run, runs)}")
        if lines:
            items.append(Code(f"Repeat and use {run.label}", "\n".join(lines)))
    items += [facts.phases(runs), facts.facts(runs)]
    items += [Code(f"Settings of {run.label}", facts.config_text(run), folded=True) for run in runs]
    return Section("again", "To repeat it", "", items)


def _named(table: Table, name: str, label: str) -> Table:
    title = f"{table.title}, {label}" if label else table.title
    return Table(name, title, table.columns, table.rows, table.note, table.more)


def _stem(run: Run, runs: Sequence[Run]) -> str:
    """A name for files: letters, digits and dashes, with a number if two would be equal."""
    plain = "".join(c if c.isalnum() or c == "-" else "-" for c in run.label)
    same = [other for other in runs if "".join(c if c.isalnum() or c == "-" else "-" for c in other.label) == plain]
    return plain if len(same) == 1 else f"{plain}-{runs.index(run) + 1}"


def config_name(run: Run, runs: Sequence[Run]) -> str:
    return f"config_{_stem(run, runs)}.yaml"


def all_files(report: Report) -> dict[str, str]:
    """Every figure as SVG and CSV, every table as CSV, every config: name to text."""
    found: dict[str, str] = {}
    for figure in report.figures():
        found[f"{figure.stem}.svg"] = standalone(figure.svg)
        if figure.table.rows:
            found[f"{figure.stem}.csv"] = figure.table.csv()
    for table in report.tables():
        found[f"{table.name}.csv"] = table.csv()
    for run in report.runs:
        if recipe := data_info.own_recipe(run):
            found[RECIPE] = recipe
        if run.config:
            found[config_name(run, report.runs)] = facts.config_text(run)
    return found
