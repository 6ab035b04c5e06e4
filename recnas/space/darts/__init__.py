"""DARTS."""

from recnas.space.darts.space import DARTS_V2 as DARTS_V2
from recnas.space.darts.space import NAME as NAME
from recnas.space.darts.space import DartsSpace as DartsSpace
