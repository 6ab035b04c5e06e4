"""Colours in light and dark, shared by the page and by drawings that stand alone."""

from __future__ import annotations

SERIES = 6  # colours for runs and kinds; more than that repeat
STEPS = 5  # of the scale that shows size

_LIGHT = {
    "bg": "#ffffff", "panel": "#f4f6f9", "ink": "#1a212c", "muted": "#525d6b", "grid": "#dde2e9", "line": "#8d97a3", "link": "#0b5fa5",
    "grey": "#8b949f", "dead": "#b9c0c9", "c0": "#0b5fa5", "c1": "#b3480a", "c2": "#1b7440", "c3": "#83399a", "c4": "#7d6200", "c5": "#ad2650",
    "s0": "#9cc7ea", "s1": "#5fa3d9", "s2": "#2f7fc1", "s3": "#125a97", "s4": "#0a3560", "dense": "#d6e6f5", "sparse": "#dcefe1", "bridge": "#b3480a",
}  # fmt: skip
_DARK = {
    "bg": "#11151b", "panel": "#1b212a", "ink": "#e9eef4", "muted": "#abb6c2", "grid": "#2c3541", "line": "#6f7b89", "link": "#7cbcff",
    "grey": "#87929f", "dead": "#4a5563", "c0": "#6bb5ff", "c1": "#ff9d5c", "c2": "#67d391", "c3": "#d59bea", "c4": "#e3c34b", "c5": "#ff8aa8",
    "s0": "#2b5f8e", "s1": "#3f86c0", "s2": "#62a8e0", "s3": "#94c8f0", "s4": "#d4eaff", "dense": "#1e3a56", "sparse": "#1e432c", "bridge": "#ff9d5c",
}  # fmt: skip


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


VARIABLES = (
    f":root{{color-scheme:light dark;{_variables(_LIGHT)}}}\n"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(_DARK)}}}}}\n"
)

DRAWING = (
    """.rn{font:13px system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
.rn text{fill:var(--ink);stroke:none;pointer-events:none}
.rn .muted{fill:var(--muted)}
.rn .small{font-size:11.5px}
.rn .bold{font-weight:600}
.rn .axis{stroke:var(--line);fill:none}
.rn .grid{stroke:var(--grid);fill:none}
.rn .zero{stroke:var(--muted);stroke-dasharray:4 3;fill:none}
.rn .line{fill:none;stroke-width:2;stroke-linejoin:round}
.rn .thin{fill:none;stroke-width:1;opacity:.55}
.rn .band{stroke:none;opacity:.18}
.rn .noise{fill:var(--grey);stroke:none;opacity:.2}
.rn .dot{stroke:var(--bg);stroke-width:.7}
.rn .hollow{fill:var(--bg);stroke-width:1.6}
.rn .faint{opacity:.45}
.rn .grey{stroke:var(--grey)}.rn .fgrey{fill:var(--grey)}
.rn .node{stroke:var(--line)}
.rn .dense{fill:var(--dense)}.rn .sparse{fill:var(--sparse)}
.rn .dead{fill:none;stroke:var(--dead);stroke-dasharray:4 3}
.rn text.off{fill:var(--line)}
.rn .wire{fill:none;stroke:var(--line);stroke-width:1.4}
.rn .wdense{stroke:var(--c0)}.rn .wsparse{stroke:var(--c2)}
.rn .bridge{fill:none;stroke:var(--bridge);stroke-width:2.4}
.rn .offwire{stroke:var(--dead);stroke-width:1;stroke-dasharray:3 3}
.rn .changed{stroke:var(--c5);stroke-width:3}
.rn .halo{fill:none;stroke:var(--c5);stroke-width:9;opacity:.3}
.rn .fbridge{fill:var(--bridge)}
"""
    + "".join(f".rn .c{i}{{stroke:var(--c{i})}}.rn .f{i}{{fill:var(--c{i})}}\n" for i in range(SERIES))
    + "".join(f".rn .s{i}{{fill:var(--s{i})}}\n" for i in range(STEPS))
)
