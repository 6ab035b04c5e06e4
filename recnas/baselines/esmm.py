"""ESMM: clicks and conversions of all impressions, from two perceptrons on the same tables.

X. Ma et al.: Entire Space Multi-Task Model: An Effective Approach for Estimating Post-Click Conversion Rate.
SIGIR 2018, eq. 2-3. One perceptron says p(click), the other p(conversion given click), which no row is trained on by
itself: the product of the two, p(click and conversion), is compared with the conversions of all rows, so that
rows without a click, of which nobody knows whether they would have converted, need not be left out. The labels
are the click and the conversion, in this order, and every conversion is a click. The paper sums up the vectors of
multi-valued fields first; here the perceptrons read the vectors of all fields and the numbers, as those of other models do.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Mlp


class ESMMSettings(DeepSettings):
    hidden: tuple[int, ...] = (360, 200, 80)  # of each perceptron, as published


class ESMM(Baseline):
    def __init__(self, shape: InputShape, settings: ESMMSettings) -> None:
        super().__init__(shape)
        self.towers = nn.ModuleList(
            Mlp(shape.flat, settings.hidden, self.draws, settings.dropout, settings.norm, head=False) for _ in range(2)
        )
        self.heads = nn.ModuleList(nn.Linear(settings.hidden[-1], 1, bias=False) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(2))

    @property
    def output_bias(self) -> nn.Parameter:
        """Of the click and of the conversion given a click; the second output follows it, at small rates one to one."""
        return self.bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        x = joined(self.only_vectors(embedded), dense)
        a, b = (head(tower(x)).squeeze(1) for head, tower in zip(self.heads, self.towers))
        a, b = a + self.bias[0], b + self.bias[1]
        # The logit of sigmoid(a) sigmoid(b), exact where the product is close to 0 or 1.
        both = -torch.logsumexp(torch.stack((-a, -b, -a - b)), 0)
        return torch.stack((a, both), 1)
