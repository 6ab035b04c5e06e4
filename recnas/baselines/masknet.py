"""MaskNet: hidden layers whose input is multiplied by a mask that the row itself produces.

Z. Wang, Q. She, J. Zhang: MaskNet: Introducing Feature-Wise Multiplication to CTR Ranking Models by
Instance-Guided Mask. DLP-KDD 2021, eq. 4-9. A block is relu(LayerNorm(W (x * mask))), the mask two linear
layers over the raw vectors. `parallel` puts the blocks side by side under a perceptron, `serial` in a row.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from recnas.baselines.base import Baseline, DeepSettings, InputShape, joined
from recnas.baselines.layers import Linear, Mlp
from recnas.model.dropout import Dropout


class MaskNetSettings(DeepSettings):
    structure: Literal["parallel", "serial"] = "parallel"
    blocks: int = Field(3, ge=1)
    block_width: int = Field(128, ge=1)
    mask_width: int = Field(256, ge=1)  # between the two layers that make a mask


class MaskBlock(nn.Module):
    def __init__(self, raw: int, width: int, settings: MaskNetSettings, dropout: Dropout) -> None:
        super().__init__()
        self.narrow = Linear(raw, settings.mask_width)
        self.widen = Linear(settings.mask_width, width)
        self.hidden = Linear(width, settings.block_width, bias=False)
        self.norm = nn.LayerNorm(settings.block_width)
        self.dropout = dropout

    def forward(self, raw: Tensor, x: Tensor) -> Tensor:
        mask = self.widen(F.relu(self.narrow(raw), inplace=True))
        return self.dropout(F.relu(self.norm(self.hidden(x * mask))))


class MaskNet(Baseline):
    start_scale = 0.1  # LayerNorm undoes it in the forward pass; small vectors turn faster

    def __init__(self, shape: InputShape, settings: MaskNetSettings) -> None:
        super().__init__(shape)
        self.gain = nn.Parameter(torch.ones(shape.n_sparse, shape.width))
        self.offset = nn.Parameter(torch.zeros(shape.n_sparse, shape.width))
        self.serial = settings.structure == "serial"
        dropout = Dropout(settings.dropout, self.draws)
        self.blocks = nn.ModuleList(
            MaskBlock(shape.flat, settings.block_width if self.serial and i else shape.flat, settings, dropout)
            for i in range(settings.blocks)
        )
        width = settings.block_width * (1 if self.serial else settings.blocks)
        self.deep = Mlp(width, settings.hidden, self.draws, settings.dropout, settings.norm, labels=shape.labels)

    @property
    def output_bias(self) -> nn.Parameter:
        return self.deep.output_bias

    def forward(self, dense: Tensor, embedded: Tensor) -> Tensor:
        vectors = self.only_vectors(embedded)
        raw = joined(vectors, dense)
        # Every field is normalised by itself and has its own gain; dense columns stay as they are.
        normal = F.layer_norm(vectors, (self.shape.width,))
        x = joined(torch.addcmul(self.offset, normal, self.gain), dense)
        if self.serial:
            for block in self.blocks:
                x = block(raw, x)
            return self.deep(x)
        return self.deep(torch.cat([block(raw, x) for block in self.blocks], 1))
