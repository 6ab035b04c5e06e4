"""NAS-Bench-201."""

from recnas.space.nasbench201.space import NAME as NAME
from recnas.space.nasbench201.space import Nb201Space as Nb201Space
