"""How the work of a job is carried out: one object instead of four parameters in every signature.

Never part of a result: a run may go on with another number of workers, another engine, another screen.

    how = Execution(workers=2, progress=Progress())
    with how.open(work) as engine:
        for result in engine.map(items): ...
"""

from __future__ import annotations

from dataclasses import dataclass, field

from recnas.devices import default_workers
from recnas.engines.base import KINDS, Engine, Work
from recnas.errors import ConfigError
from recnas.progress import Progress


@dataclass(frozen=True)
class Execution:
    """Args:
    workers: processes of one thread each.
    engine: "auto" is this process for one worker and a pool of processes for more.
    address: of a running Ray cluster; None starts one on this machine.
    threads: of what the job computes in its own process; None: settled with the run (`recnas.threads`).
    progress: who is told how far it is; nobody by default.
    """

    workers: int = 1
    engine: str = "auto"
    address: str | None = None
    threads: int | None = None
    progress: Progress = field(default_factory=lambda: Progress(quiet=True))

    @classmethod
    def of(
        cls,
        workers: int | None = None,
        quiet: bool = True,
        engine: str = "auto",
        address: str | None = None,
    ) -> Execution:
        """As commands are asked for it: all cores, or a few workers per GPU, unless a number is given."""
        return cls(default_workers() if workers is None else workers, engine, address, None, Progress(quiet=quiet))

    def check(self) -> None:
        """Faults that can be known before the work begins: a search should not find them hours later."""
        if self.workers < 1:
            raise ConfigError("--workers must be at least 1.")
        if self.engine not in KINDS:
            raise ConfigError(f"There is no engine {self.engine!r}.", f"Choose one of: {', '.join(KINDS)}")
        if self.address is not None and self.engine != "ray":
            raise ConfigError("--ray-address goes with --engine ray.")
        if self.engine == "ray":
            from recnas.engines.ray_cluster import check_address, import_ray

            ray = import_ray()
            if self.address is not None and not ray.is_initialized():
                check_address(self.address)

    @property
    def workers_here(self) -> int:
        """How many of the workers need memory of this machine: at most one, as far as we know of a cluster."""
        return min(self.workers, 1) if self.address is not None else self.workers

    def open(self, work: Work) -> Engine:
        """Workers that do `work`, ready to map; close them, or use `with`."""
        from recnas.engines.local import LocalEngine
        from recnas.engines.pool import PoolEngine

        if getattr(work, "in_process", False):  # a look into a table needs no worker
            return LocalEngine(work)
        if self.engine == "ray":
            from recnas.engines.ray import RayEngine

            return RayEngine(work, self.workers, self.address)
        if self.engine == "local" or (self.engine == "auto" and self.workers == 1):
            return LocalEngine(work)
        return PoolEngine(work, self.workers)
