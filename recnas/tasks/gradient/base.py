"""What NASI and DARTS share: the supernet, the ledger, batches that can be drawn again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recnas.devices import choose_device
from recnas.engines.execution import Execution
from recnas.model.supernets.supernet import build_supernet
from recnas.runs.book import Book
from recnas.runs.folder import RunDir
from recnas.runs.records import Candidate
from recnas.runs.search_result import Budget
from recnas.tasks.settings import GradientSearchConfig

if TYPE_CHECKING:
    from recnas.data.images.sets import ImageSet


@dataclass(frozen=True)
class Chosen:
    """How a gradient search ended."""

    arch: Any
    line: Candidate
    budget: Budget
    extras: dict[str, Any] = field(default_factory=dict)


class GradientSearch(ABC):
    """What NASI and DARTS share: the supernet, the run, the ledger. Subclasses do the steps."""

    objective: str

    def __init__(self, config: GradientSearchConfig, images: ImageSet, run: RunDir, how: Execution) -> None:
        self.config, self.images, self.folder, self.progress = config, images, run, how.progress
        self.device = choose_device(config.search.device, "search.device")
        self.supernet = build_supernet(
            config.space.name, images.classes, images.side, config.seed, device=self.device, **config.space.supernet
        )
        self.plan = self.supernet.plan
        self.space = config.space.space.make()
        self.book = Book(run)

    @staticmethod
    @abstractmethod
    def total(config: GradientSearchConfig) -> int:
        """Lines of candidates that the search writes before its outcome: steps or epochs."""

    @abstractmethod
    def steps(self) -> Chosen:
        """Do what is left to do; the ledger says what was done."""

    def candidate(self, index: int, arch: Any, origin: str) -> Candidate:
        described = self.space.to_dict(arch)
        return Candidate(index=index, key=self.space.key(arch), arch=described, origin=origin)

    def batch(self, name: str, number: int, size: int, labels: Any = "true", inputs: Any = "data") -> Any:
        """A batch that depends on the seed, `name` and `number` alone: drawn again when a search is resumed."""
        from recnas.data.images.sets import image_batches
        from recnas.seeds import stream_seed

        seed = stream_seed(self.config.seed, name, number)
        ((pixels, classes),) = image_batches(self.images, size, 1, seed, labels, inputs)
        return pixels.to(self.device), classes.to(self.device)
