"""A search space of your own: `recnas search CONFIG --out RUN space.name=MINE --plugin FILE`.

Of the NASRec family: which operators and widths a block may choose from. Sampling, mutation, counting, the supernet,
drawings and exports follow from these rules. An operator of your own is two records more, see docs/plugins.md.
"""

from recnas.space.nasrec.arch import DOT, EFC, FC, GATE
from recnas.space.nasrec.rules import NasrecRules
from recnas.space.registry import register_nasrec

NAME = "MINE"

register_nasrec(
    NasrecRules(
        NAME,
        dense_ops=(FC, DOT, GATE),
        sparse_ops=(EFC,),
        dense_dims=(16, 32, 64, 128),
        sparse_dims=(16, 32),
    )
)
