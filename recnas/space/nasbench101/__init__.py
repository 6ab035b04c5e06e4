"""NAS-Bench-101."""

from recnas.space.nasbench101.space import MATRICES as MATRICES
from recnas.space.nasbench101.space import NAME as NAME
from recnas.space.nasbench101.space import Nb101Space as Nb101Space
