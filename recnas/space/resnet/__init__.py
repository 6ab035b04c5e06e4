"""ResNet-like networks."""

from recnas.space.resnet.space import NAME as NAME
from recnas.space.resnet.space import ResnetSpace as ResnetSpace
