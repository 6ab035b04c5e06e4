"""What is to be drawn of a cell or a small network: boxes in a row and links between them.

A vision space lists these (`VisionSpace.rows`); `recnas.report.arcs_svg` makes the picture.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Box:
    label: str
    title: str
    classes: str = "dense"


@dataclass(frozen=True)
class Link:
    """From box `start` to box `end`, above (`side` -1) or below (1) the row."""

    start: int
    end: int
    label: str = ""
    colour: int = 0
    side: int = -1


@dataclass(frozen=True)
class Row:
    """One cell or network."""

    name: str
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
