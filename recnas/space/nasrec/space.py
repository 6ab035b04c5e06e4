"""The NASRec search spaces: chains of blocks with a dense and a sparse stream (Zhang et al., NASRec, 2023).

| | `nasrec-small` (reference: autoctr) | `nasrec-full` (reference: xlarge) |
|---|---|---|
| dense operators | fc, dot | fc, dot, gate, sum |
| sparse operators | efc | transformer, efc |
| descriptions, 7 blocks | 4.9e39 | 8.1e43 |
| without genes no operator reads | 1.9e32 | 2.5e36 |

This file ties the parts together. `arch` is the value; `operators` has a record per operator, from which
`liveness`, `key`, `moves`, `plan` (parameters) and `cost` follow; `rules` says what is allowed, `sampling`
draws, `json` and `reference` read and write.

    space = NasrecSpace("nasrec-full", blocks=7)
    arch = space.sample(numpy.random.default_rng(0))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import comb, prod
from typing import Any

from numpy.random import Generator

from recnas.errors import SpaceError
from recnas.space.base import Space, nearest_name
from recnas.space.nasrec import json as files
from recnas.space.nasrec import key as keys
from recnas.space.nasrec import moves
from recnas.space.nasrec.arch import NasrecArch
from recnas.space.nasrec.layers import NetShape
from recnas.space.nasrec.operators import OPERATORS
from recnas.space.nasrec.rules import ALIASES, FULL, RULES, check, is_int
from recnas.space.nasrec.sampling import ANY_CONNECTION, BINOMIAL, CONNECTION_LAWS, draw_block, full_block


class NasrecSpace(Space[NasrecArch]):
    """One NASRec space.

    Args:
        name: `nasrec-small` or `nasrec-full` (NASRec's own `autoctr` and `xlarge` are understood).
        blocks: how many blocks in the chain, from 1 up; 7 in the paper.
        connections: law of the number of inputs, `binomial` or `uniform`
            (see `sampling.draw_connections`).
        dense_dims: widths of the dense stream to choose from; None: those of the rules registered under the name.
        sparse_dims: row counts of the sparse stream to choose from; None: likewise.
        max_inputs: most inputs a search candidate reads through dense_in or sparse_in.
    """

    trains_full_path = True  # early steps of a warm-up; a space with products of products would overflow

    def __init__(
        self,
        name: str = FULL,
        blocks: int = 7,
        connections: str = BINOMIAL,
        *,
        dense_dims: tuple[int, ...] | None = None,
        sparse_dims: tuple[int, ...] | None = None,
        max_inputs: int | None = None,
    ) -> None:
        base = RULES.get(ALIASES.get(name, name))
        if base is None:
            raise SpaceError(f"there is no NASRec space {name!r}", nearest_name(name, [*RULES, *ALIASES]))
        if connections not in CONNECTION_LAWS:
            raise SpaceError(
                f"connections={connections!r} is not a law for the number of inputs",
                nearest_name(str(connections), CONNECTION_LAWS),
            )
        (self.blocks,) = _positive("blocks", blocks)
        (max_inputs,) = _positive("max_inputs", base.max_inputs if max_inputs is None else max_inputs)
        self.rules = replace(
            base,
            dense_dims=_positive("dense_dims", base.dense_dims if dense_dims is None else dense_dims),
            sparse_dims=_positive("sparse_dims", base.sparse_dims if sparse_dims is None else sparse_dims),
            max_inputs=max_inputs,
        )
        self.name = self.rules.name
        self.connections = connections

    def __repr__(self) -> str:
        return f"NasrecSpace({self.name!r}, blocks={self.blocks}, connections={self.connections!r})"

    def on(self, fields: int) -> NasrecSpace:
        """The space on data with so many categorical columns; here it is the same for all."""
        return self

    def sample(self, rng: Generator) -> NasrecArch:
        """Single operator, any connection: what NASRec searches over."""
        return self.sample_path(rng, ANY_CONNECTION)

    def sample_path(self, rng: Generator, strategy: str = ANY_CONNECTION) -> NasrecArch:
        """One step's path for weight-sharing training; the strategies are in `sampling`."""
        positions = range(1, self.blocks + 1)
        drawn = (draw_block(self.rules, b, self.connections, strategy, rng) for b in positions)
        return NasrecArch(self.name, tuple(drawn))

    def full_path(self) -> NasrecArch:
        """Every operator and connection at full width: the supernet itself, seen as an architecture."""
        positions = range(1, self.blocks + 1)
        return NasrecArch(self.name, tuple(full_block(self.rules, b) for b in positions))

    def storage_path(self, shape: NetShape) -> NasrecArch:
        """The path whose parameters a supernet of this shape (with its slots) holds."""
        return self.full_path()

    def fits(self, arch: NasrecArch) -> bool:
        """Whether a supernet of this space can hold the architecture's blocks."""
        return arch.space == self.name and len(arch.blocks) == self.blocks

    def slots(self, shape: NetShape) -> NetShape:
        """The shape with room for the widest stream of either kind."""
        return replace(shape, dense_max=max(self.rules.dense_dims), sparse_max=max(self.rules.sparse_dims))

    def table_width(self, width: int) -> int:
        """Columns of a table row that every candidate can work with, when vectors are `width` wide."""
        return width

    def mutate(self, arch: NasrecArch, rng: Generator) -> NasrecArch:
        """One gene changed, and the network with it; `moves` says how this departs from NASRec."""
        self.validate(arch, sampled=False)
        return moves.mutate(arch, self.rules, self.connections, rng)

    def neighbours(self, arch: NasrecArch) -> Iterator[NasrecArch]:
        """Every network one gene away, each once; a few hundred of them for 7 blocks."""
        self.validate(arch, sampled=False)
        return moves.neighbours(arch, self.rules)

    def validate(self, arch: NasrecArch, sampled: bool = True) -> None:
        """Raise `SpaceError` naming every fault; `sampled=False` lets weight-sharing paths pass too."""
        check(arch, self.rules, self.blocks, sampled)

    def key(self, arch: NasrecArch) -> str:
        """Name of the standalone network: for training, cost and duplicates (see `key`)."""
        return arch.key

    def shared_key(self, arch: NasrecArch) -> str:
        """Name of the path through a supernet: for caching what was measured under shared weights."""
        return arch.shared_key

    def canonical(self, arch: NasrecArch) -> dict[str, Any]:
        """The effective network as data; what `key` is a digest of."""
        return keys.canonical(arch)

    def to_dict(self, arch: NasrecArch) -> dict[str, Any]:
        return files.to_dict(arch)

    def from_dict(self, data: dict[str, Any]) -> NasrecArch:
        """Read recnas's own format; paths pass, as they are stored too."""
        arch = files.from_dict(data)
        self.validate(arch, sampled=False)
        return arch

    def size(self) -> int:
        """Number of descriptions: every gene of every block counted, whether it matters or not."""
        return prod(
            len(self.rules.dense_ops) * self._input_sets(b) * b**2 * self._sparse_choices(b)
            for b in range(1, self.blocks + 1)
        )

    def effective_size(self) -> int:
        """Number of descriptions once genes that no operator of their own block reads are removed.

        Still an upper bound on the number of networks: dead blocks and the symmetry of sum, which depend
        on more than one gene, are left in.
        """
        return prod(
            sum(self._dense_choices(op, b) for op in self.rules.dense_ops) * self._sparse_choices(b)
            for b in range(1, self.blocks + 1)
        )

    def _dense_choices(self, op: str, b: int) -> int:
        """Values of the genes that a dense operator of block `b` reads, sparse_in apart."""
        values = {"dense_in": self._input_sets(b), "left": b, "right": b, "sparse_in": 1}
        return prod(values[field] for field in OPERATORS[op].reads)

    def _input_sets(self, b: int) -> int:
        """How many values dense_in (or sparse_in) of block `b` has."""
        return sum(comb(b, count) for count in range(1, min(self.rules.max_inputs, b) + 1))

    def _sparse_choices(self, b: int) -> int:
        """Values of the genes that every block always uses: sparse stream, both widths, both bits."""
        widths = len(self.rules.dense_dims) * len(self.rules.sparse_dims)
        return len(self.rules.sparse_ops) * self._input_sets(b) * widths * 4


def _positive(option: str, given: Any) -> tuple[int, ...]:
    """`given` as a tuple, if it is a whole number from 1 up or a list of different ones."""
    values = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not values or len(set(values)) < len(values) or not all(is_int(v) and v >= 1 for v in values):
        raise SpaceError(
            f"{option}={given!r} does not describe a NASRec space",
            f"give {option} as whole numbers from 1 up, each once",
        )
    return values
