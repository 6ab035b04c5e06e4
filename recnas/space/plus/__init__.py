"""The search space `nasrec-plus`, in which every hand-crafted CTR model is a point. See `space` for the map."""

from recnas.space.plus.space import PLUS as PLUS
from recnas.space.plus.space import PlusSpace as PlusSpace
