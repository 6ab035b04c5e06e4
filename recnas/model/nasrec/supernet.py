"""The weight-sharing NASRec supernet: full-size storages, and candidates as leaf views into them.

A candidate is never copied. Its parameters are views (`storage[:d, a:b]`) that share memory with the
supernet but are leaves for autograd, so a gradient has the size of the slice. (Differentiating through
the slicing instead would fill a full-size gradient with zeros for every slice.) An optimizer writes through
the views; see `recnas.train.slice_optim`.

    space = NasrecSpace("nasrec-small")
    supernet = Supernet(space, NetShape(n_dense=13, n_sparse=26), torch.Generator().manual_seed(0))
    candidate = supernet.candidate(space.sample(rng))
    logits = candidate(dense, embedded)                              # [B]

Departure from the reference, which runs the full width and masks: LayerNorm and attention see the active
units only, so a candidate computes exactly what the standalone `Subnet` with the same weights computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from recnas.errors import SpaceError
from recnas.model.nasrec.forward import run
from recnas.model.nasrec.init import attach, fill
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.layers import NetShape
from recnas.space.nasrec.plan import HEAD_BIAS, Plan, Region, build_plan
from recnas.space.plus.arch import PlusArch

_DESCRIPTION = "_extra_state"  # where torch keeps a module's own entry in a state dict


class Candidate:
    """One architecture inside the supernet: named leaf tensors and the function of them.

    A proxy that brings leaves of its own calls `forward(its_leaves, dense, embedded)`.
    """

    def __init__(self, plan: Plan, leaves: dict[str, Tensor]) -> None:
        self.plan = plan
        self.leaves = leaves

    def forward(self, params: Mapping[str, Tensor], dense: Tensor, embedded: Tensor) -> Tensor:
        """Logits `[B]` of `dense [B, I]` and `embedded [B, F, D]` under the given parameters."""
        return run(self.plan, params, dense, embedded)

    def __call__(self, dense: Tensor, embedded: Tensor) -> Tensor:
        return run(self.plan, self.leaves, dense, embedded)

    def slices(self) -> list[tuple[str, Tensor, str, Region]]:
        """Leaf name, leaf, storage name and region: what an optimizer on slices updates."""
        return [(leaf, self.leaves[leaf], *where) for leaf, where in self.plan.regions.items()]


class Supernet(nn.Module):
    """All shared weights of one space.

    Args:
        space: decides operators, number of blocks and the largest widths.
        shape: raw widths and options; its slot sizes are taken from the space.
        generator: source of the initial weights; None draws from torch's global one.
        tensors: take these weights over instead, without a copy (a file mapped by several processes).
    """

    def __init__(
        self,
        space: NasrecSpace,
        shape: NetShape,
        generator: torch.Generator | None = None,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.space = space
        self.shape = space.slots(shape)
        full = build_plan(space.storage_path(self.shape), self.shape, sliced=False, elide=False)
        for param in full.params:
            # The storages themselves never receive a gradient: only leaf views do.
            values = fill(torch.empty(param.shape), param.init, generator) if tensors is None else tensors[param.name]
            attach(self, param.name, nn.Parameter(values, requires_grad=False))

    @property
    def storages(self) -> dict[str, Tensor]:
        """Every shared tensor by name; the names are those of the standalone parameters."""
        return dict(self._by_name())

    def _by_name(self) -> dict[str, Tensor]:
        # Collected once: walking a few hundred modules takes longer than cutting a candidate's leaves.
        # Moving the module changes the data of these parameters, not which objects they are.
        table = self.__dict__.get("_table")
        if table is None:
            table = self.__dict__["_table"] = dict(self.named_parameters())
        return table

    @property
    def output_bias(self) -> Tensor:
        """The tensor `[L]` that is added to every logit of every candidate."""
        return self._by_name()[HEAD_BIAS]

    def plan(self, arch: NasrecArch) -> Plan:
        """The plan of an architecture or weight-sharing path; raises `SpaceError` if it does not fit."""
        if not self.space.fits(arch):
            raise SpaceError(
                f"an architecture of {arch.space} with {len(arch.blocks)} blocks does not fit the supernet of "
                f"{self.space.name} with {self.space.blocks} blocks",
                "draw candidates from the space that the supernet was built for",
            )
        plan = build_plan(arch, self.shape, sliced=True)
        if isinstance(arch, PlusArch):
            self._check_widths(plan)
        return plan

    def _check_widths(self, plan: Plan) -> None:
        """A slice beyond its storage would come out short without a word."""
        table = self._by_name()
        for name, region in plan.regions.values():
            storage = table.get(name)
            if storage is None or any(part.stop > size for part, size in zip(region, storage.shape)):
                has = "nothing" if storage is None else list(storage.shape)
                raise SpaceError(
                    f"the architecture is too wide for the supernet: {name} would need "
                    f"{[part.stop for part in region]}, and it has {has}",
                    "train it by itself (recnas train), or give the space larger dense_dims and sparse_dims",
                )

    start_scale = 1.0

    @property
    def first_order(self) -> bool:
        """Whether the tables hold one weight per id beside the vectors."""
        return self.space.table_width(1) > 1

    def table_width(self, width: int) -> int:
        """Columns of a table row that every candidate can work with, when vectors are `width` wide."""
        return self.space.table_width(width) + self.first_order * (self.shape.labels - 1)

    def leaves(self, arch: NasrecArch) -> dict[str, Tensor]:
        """Views of the slices an architecture uses, by leaf name; leaves for autograd, no copies.

        They point into the storages as they are now: cut them again after `to(device)`.
        """
        table = self._by_name()
        return {
            leaf: table[name].detach()[region].requires_grad_()
            for leaf, (name, region) in self.plan(arch).regions.items()
        }

    def candidate(self, arch: NasrecArch) -> Candidate:
        return Candidate(self.plan(arch), self.leaves(arch))

    def forward(self, arch: NasrecArch, dense: Tensor, embedded: Tensor) -> Tensor:
        return self.candidate(arch)(dense, embedded)

    # Saving

    def describe(self) -> dict[str, Any]:
        """What must agree for the weights of another supernet to mean the same thing here."""
        return {"space": self.space.name, "blocks": self.space.blocks, **asdict(self.shape)}

    def get_extra_state(self) -> dict[str, Any]:
        return self.describe()

    def set_extra_state(self, state: Any) -> None:
        self._check_description(state)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load weights; a checkpoint of another space or shape is refused before anything is written."""
        if _DESCRIPTION in state_dict:
            self._check_description(state_dict[_DESCRIPTION])
        result = super().load_state_dict(state_dict, strict=strict, assign=assign)
        self.__dict__.pop("_table", None)
        return result

    def _check_description(self, saved: Mapping[str, Any]) -> None:
        mine = self.describe()
        if dict(saved) != mine:
            differing = ", ".join(key for key in mine if saved.get(key) != mine[key])
            raise SpaceError(
                f"the checkpoint belongs to another supernet (different: {differing}).\n"
                f"  checkpoint: {_one_line(saved)}\n  this run:   {_one_line(mine)}",
                "use the space, blocks, data and options the checkpoint was made with, or warm up a new supernet",
            )


def _one_line(description: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in description.items())
