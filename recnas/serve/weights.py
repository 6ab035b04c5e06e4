"""The weights of a checkpoint, in a network and in tables that are only read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recnas.data.schema import Schema
from recnas.errors import RunError
from recnas.model.embeddings import FieldColumns, NarrowReader, RowMap, TableReader
from recnas.model.embeddings.attention import stored_name
from recnas.train.checkpoint import Checkpoint, load_latest
from recnas.train.settings import TrainSettings


@torch.no_grad()
def fill_network(network: nn.Module, tensors: Mapping[str, Tensor], source: Path | str) -> None:
    """Copy `network/...` of a checkpoint into a network of the same shapes; gradients are switched off."""
    mine = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    saved = {name.removeprefix("network/") for name in tensors if name.startswith("network/")}
    if mine.keys() != saved:
        raise RunError(
            f"{source} holds the weights of another network than its architecture describes.",
            "The run was changed, or written by another version. Train again.",
        )
    for name, tensor in mine.items():
        tensor.copy_(tensors[f"network/{name}"])
        tensor.requires_grad_(False)


@torch.no_grad()
def fill_tables(
    schema: Schema,
    settings: TrainSettings,
    tensors: Mapping[str, Tensor],
    device: torch.device,
    source: Path | str,
    layout: FieldColumns | None = None,
) -> TableReader:
    """The tables of a checkpoint for reading: no optimizer state, so half the memory of training.

    Args:
        layout: which columns each field has; None: as many as the settings say.
    """
    options = settings.embeddings

    def stacked(schema: Schema, width: int) -> tuple[list[Tensor], RowMap]:
        row_map = RowMap(schema, options.cap, options.hash_rows, device)
        for name, rows in zip(row_map.names, row_map.rows):  # before so much memory is asked for
            table = tensors.get(f"embeddings/weights/{name}")
            filled = 0 if layout is None or table is None else -width % 4  # columns that kernels wanted beside
            if table is None or tuple(table.shape) not in ((rows, width), (rows, width + filled)):
                found = "none" if table is None else list(table.shape)
                raise RunError(
                    f"{source} should hold a table of {[rows, width]} for column {name}; it has {found}.",
                    "The run was changed, or its schema.json is of other data. Train again.",
                )
        stack = torch.empty((row_map.total, width), device=device)
        for name, start, rows in zip(row_map.names, row_map.starts, row_map.rows):
            stack[start : start + rows].copy_(tensors[f"embeddings/weights/{name}"][:, :width])
        attention = [
            tensors[f"embeddings/weights/{stored_name(row_map.columns[bag.columns.start])}"].to(device)
            for bag in row_map.attentive
        ]
        return [stack, *attention], row_map

    if layout is None:
        (stack, *attention), row_map = stacked(schema, options.width)
        return TableReader(stack, row_map, attention)
    layout = replace(layout, columns=schema.table_columns(layout.columns))
    parts = [
        stacked(replace(schema, sparse=tuple(schema.sparse[field] for field in group.fields)), group.columns)
        for group in layout.groups
    ]
    row_map = RowMap(schema, options.cap, options.hash_rows, device)
    return NarrowReader([one for stacks, _ in parts for one in stacks], [own for _, own in parts], layout, row_map)


def whole_checkpoint(folder: Path, made_from: dict[str, Any]) -> Checkpoint:
    saved = load_latest(folder, made_from)
    if saved is None:
        raise RunError(
            f"{folder} has no whole checkpoint, though its training ended: files were removed or damaged.",
            "Restore the folder, or train again into a new --out.",
        )
    # One that validation ended holds its best state, which is of an earlier step.
    if not saved.facts.get("ended", saved.step >= saved.facts["total_steps"]):
        raise RunError(
            f"{folder} holds step {saved.step:,} of {saved.facts['total_steps']:,}: the last checkpoint is damaged.",
            "Restore the folder, or train again into a new --out.",
        )
    return saved
