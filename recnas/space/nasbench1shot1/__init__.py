"""The three NAS-Bench-1Shot1 spaces."""

from recnas.space.nasbench1shot1.arch import OneShotArch as OneShotArch
from recnas.space.nasbench1shot1.space import NAME as NAME
from recnas.space.nasbench1shot1.space import PARENTS as PARENTS
from recnas.space.nasbench1shot1.space import OneShotSpace as OneShotSpace
