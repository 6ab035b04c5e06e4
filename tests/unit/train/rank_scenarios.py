"""What the processes of `test_distributed.py` do. Run as a script: it imports once and forks each group.

    python rank_scenarios.py FOLDER JOBS.json      with JOBS = [{"name", "scenario", "world", ...arguments}, ...]

Each process of a group leaves FOLDER/NAME.RANK.pt with what its scenario returned, or the error it ended with.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recnas.data.prepared import PreparedData
from recnas.data.schema import Schema
from recnas.errors import DataError
from recnas.model.embeddings.sharded import build_sharded
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.space.nasrec import NasrecSpace
from recnas.train.checkpoint import load_latest, save
from recnas.train.distributed import current_ranks, join_ranks
from recnas.train.evaluate import evaluate
from recnas.train.loop import FixedNetwork, SupernetPaths, Trainer
from recnas.train.paths import PathSampler
from recnas.train.settings import TrainSettings
from recnas.train.setup import make_embeddings, make_loader, net_shape, new_trainer

CPU = torch.device("cpu")
ROWS = 386  # four batches of 96 rows and one of two, where half of four processes have no row
TABLES = (50, 7, 90)  # of the scenario "tables"
STEPS, BATCH, WIDTH = 6, 8, 16


def make_trainer(data: PreparedData, kind: str, steps: int, settings: TrainSettings) -> Trainer:
    """The same for one process and for several: this is all that a job does."""
    space = NasrecSpace("nasrec-small", blocks=2)
    shape, generator = net_shape(data.schema, settings), torch.Generator().manual_seed(0)
    if kind == "subnet":
        trainee: Any = FixedNetwork(Subnet(space.sample(np.random.default_rng(1)), shape, generator))
    else:
        trainee = SupernetPaths(Supernet(space, shape, generator), PathSampler(space, 0, steps), head_lr_share=0.05)
    embeddings = make_embeddings(data.schema, settings, 0, CPU)
    loader = make_loader(data, settings, 0, CPU, ROWS)
    return new_trainer(trainee, embeddings, loader, settings, CPU, steps)


def train(data: str, kind: str, steps: int, settings: dict, start: str = "", stop: int = 0, keep: str = "",
          evaluates: bool = False) -> dict[str, Any]:  # fmt: skip
    """Train, from a checkpoint in `start` if given, to the end or to `stop`, where `keep` gets a checkpoint."""
    prepared, ranks = PreparedData.open(data), current_ranks()
    trainer = make_trainer(prepared, kind, steps, TrainSettings(**settings))
    if start:
        saved = load_latest(Path(start)) if ranks.first else None
        trainer.load(saved.tensors if saved else {}, saved.facts if saved else {})
    losses: list[float] = []

    def on_step(trainer: Trainer, loss: float) -> None:
        losses.append(loss)
        if trainer.step == stop:
            raise StopIteration

    try:
        trainer.run(on_step)
    except StopIteration:
        tensors = trainer.tensors()
        if ranks.first:
            save(Path(keep), trainer.step, tensors, trainer.facts())
    found: dict[str, Any] = {
        "losses": losses,
        "tensors": {k: v.clone() for k, v in trainer.tensors().items()},
    }
    found["network"] = {name: t.detach().clone() for name, t in trainer.trainee.storages.items()}
    if evaluates:
        network, _ = trainer.trainee.at_step(0)
        found["valid"] = evaluate(network, trainer.embeddings, prepared, "valid", rows=997, batch_size=100)
    return found


def table_batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Ids with many duplicates, and the gradient each row of the batch has, for the scenario "tables"."""
    generator = torch.Generator().manual_seed(3)
    found = []
    for _ in range(STEPS):
        ids = torch.stack([torch.randint(min(n, 6), (BATCH,), generator=generator) for n in TABLES], 1)
        found.append((ids, torch.randn(BATCH, len(TABLES), WIDTH, generator=generator)))
    return found


def tables(optimizer: str, sharding: str | None, divides: bool = True) -> dict[str, Any]:
    """Tables alone, each process with its rows of every batch; the rate changes on the way."""
    from torchrec.distributed.comm_ops import set_gradient_division

    set_gradient_division(divides)
    ranks = current_ranks()
    tables = build_sharded(
        Schema.of_shape(0, TABLES),
        WIDTH,
        optimizer,
        lr=0.1,
        eps=1e-2,
        seed=5,
        sharding=sharding,  # type: ignore[arg-type]
    )
    size = BATCH // ranks.world
    mine = slice(ranks.rank * size, (ranks.rank + 1) * size)
    values, norms = [], []
    for step, (ids, grad) in enumerate(table_batches()):
        tables.set_lr(0.1 / (1 + step))
        lookup = tables.begin(ids[mine])
        values.append(lookup.leaf.detach().clone())
        lookup.leaf.grad = grad[mine].clone()
        norms.append(ranks.sum(float(lookup.table_gradient().norm()) ** 2) ** 0.5)
        lookup.apply(scale=0.5)
    seen = tables.lookup(table_batches()[0][0][mine])
    ways = {name: plan.sharding_type for name, plan in tables.plan.plan[""].items()}
    return {
        "values": values, "norms": norms, "state": tables.state_dict(), "bytes": tables.bytes_here(),
        "seen": seen, "ways": ways, "all_bytes": tables.nbytes,
    }  # fmt: skip


def faulty(data: str, how: str) -> None:
    """Process 1 fails in the third step; "ended" adds what torchrun then does to the others."""
    prepared = PreparedData.open(data)
    first = current_ranks().share(os.getpid())
    trainer = make_trainer(prepared, "subnet", 5, TrainSettings(batch_size=96))

    def on_step(trainer: Trainer, loss: float) -> None:
        if trainer.step == 3 and current_ranks().rank == 1:
            if how == "ended" and os.fork() == 0:
                os.closerange(3, 1024)  # the connections must close with the process that dies
                time.sleep(1.0)
                os.kill(first, signal.SIGTERM)
                os._exit(0)
            if how in ("dies", "ended"):
                os._exit(9)
            raise DataError("row 7 is torn.", "Prepare again.")

    if how == "nan":
        with torch.no_grad():
            for tensor in trainer.trainee.storages.values():
                tensor.fill_(float("nan"))
    trainer.run(on_step)


def embeddings_of(data: str, settings: dict) -> None:
    make_embeddings(PreparedData.open(data).schema, TrainSettings(**settings), 0, CPU)


def too_large() -> None:
    build_sharded(Schema.of_shape(0, [10_000, 200_000]), 16, memory=2**20)


def _main(argv: list[str]) -> int:
    from recnas.cli.main import main

    return main(argv)


SCENARIOS = {
    f.__name__: f for f in (train, tables, faulty, embeddings_of, too_large)
}  # by name, since they travel as JSON


def one_process(folder: Path, job: dict[str, Any], rank: int, port: int) -> None:
    arguments = {k: v for k, v in job.items() if k not in ("name", "scenario", "world")}
    world = str(job["world"])
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": world, "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": world,
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RECNAS_RANK_TIMEOUT": "40"}  # fmt: skip
    result: dict[str, Any]
    try:
        if job["scenario"] == "command":  # joins by itself
            with open(folder / f"{job['name']}.{rank}.out", "w") as out:
                os.dup2(out.fileno(), 1)
                os.dup2(out.fileno(), 2)
            result = {"returned": _main(**arguments)}
        else:
            with join_ranks():
                result = {"returned": SCENARIOS[job["scenario"]](**arguments)}
    except Exception as error:
        result = {"error": type(error).__name__, "text": str(error), "trace": traceback.format_exc()}
    torch.save(result, folder / f"{job['name']}.{rank}.pt")


def main(folder: Path, jobs: list[dict[str, Any]]) -> None:
    torch.set_num_threads(1)
    for job in jobs:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        children = []
        for rank in range(job["world"]):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    one_process(folder, job, rank, port)
                    status = 0
                finally:
                    sys.stdout.flush()
                    os._exit(status)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    from recnas.model.embeddings.fused import load_kernels
    from recnas.model.embeddings.sharding import make_sharder, meta_tables

    load_kernels()
    meta_tables(["t0"], [4], 4), make_sharder("adagrad", 0.1, 0.1)  # imports, before the forks
    main(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()))
