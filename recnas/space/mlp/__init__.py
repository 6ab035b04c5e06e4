"""The MLP space of Eigen-NAS."""

from recnas.space.mlp.arch import ACTIVATIONS as ACTIVATIONS
from recnas.space.mlp.arch import MlpArch as MlpArch
from recnas.space.mlp.space import NAME as NAME
from recnas.space.mlp.space import MlpSpace as MlpSpace
