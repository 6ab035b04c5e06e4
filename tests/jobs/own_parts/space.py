from recnas.space.nasrec.arch import DOT, EFC, FC
from recnas.space.nasrec.rules import NasrecRules
from recnas.space.registry import register_nasrec

register_nasrec(NasrecRules("own-narrow", (FC, DOT), (EFC,), dense_dims=(16, 32), sparse_dims=(16,)))
