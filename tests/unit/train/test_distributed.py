"""Real processes over gloo against one process, and against sums written out by hand.

One script run (`rank_scenarios.py`) does all groups of processes; the tests look at what they left.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from recnas.cli.main import main
from recnas.data.loader import BatchLoader
from recnas.data.prepare.prepare import prepare
from recnas.data.rank_batch import PartBatch, share_of
from recnas.errors import BackendMissing, ConfigError
from recnas.model.embeddings import build_embeddings
from recnas.model.embeddings.fused import load_kernels
from recnas.model.embeddings.sharding import allowed
from recnas.space.nasrec.json import dump_arch
from recnas.train.checkpoint import load_latest, save
from recnas.train.distributed import Ranks, join_ranks
from recnas.train.loop import Trainer
from recnas.train.settings import TrainSettings

pytestmark = pytest.mark.spawns

SCRIPT = Path(__file__).with_name("rank_scenarios.py")
spec = importlib.util.spec_from_file_location("rank_scenarios", SCRIPT)
assert spec is not None
assert spec.loader is not None
scenarios = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scenarios)


def _reason_to_skip() -> str:
    if not (dist.is_available() and dist.is_gloo_available()):
        return "torch has no gloo here"
    try:
        load_kernels()
    except BackendMissing as error:
        return error.what
    return "" if hasattr(os, "fork") else "no fork on this system"


reason = _reason_to_skip()
needs_gloo = pytest.mark.skipif(bool(reason), reason=reason)

SUBNET = {"batch_size": 96, "optimizer": "adagrad", "clip": 0.05, "lr": 0.1, "least_rise": 0}
SUPERNET = {"batch_size": 96, "optimizer": "adamw", "lr": 0.01, "clip": 5.0, "least_rise": 0, "embeddings": {"l2": 0}}
ROWWISE = {**SUBNET, "clip": None, "embeddings": {"optimizer": "rowwise-adagrad", "lr": 0.05, "cap": 20}}
STEPS, CUT = 12, 7  # an epoch has five steps
TOLERANCE = 1e-4  # of losses, relative: sums over rows are added in another order


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def alone(data: Any, kind: str, settings: dict, start: Path | None = None) -> dict[str, Any]:
    """The same training in this process."""
    return scenarios.train(str(data.path), kind, STEPS, settings, start=str(start or ""), evaluates=True)


def checkpoint_alone(data: Any, settings: dict, folder: Path) -> None:
    trainer: Trainer = scenarios.make_trainer(data, "subnet", STEPS, TrainSettings(**settings))

    def on_step(trainer: Trainer, loss: float) -> None:
        if trainer.step == CUT:
            save(folder, CUT, trainer.tensors(), trainer.facts())
            raise StopIteration

    with pytest.raises(StopIteration):
        trainer.run(on_step)


@pytest.fixture(scope="module")
def averaged_bags(bagged_rows, bagged_recipe: Path, tmp_path_factory):
    """Bags that are added up or averaged, which is what torchrec's kernels do."""
    folder = tmp_path_factory.mktemp("bags")
    bagged_rows(3000).to_csv(folder / "log.csv", index=False)
    (folder / "r.yaml").write_text(
        bagged_recipe.read_text().replace("pool: max", "pool: mean").replace("pool: attention", "pool: mean")
    )
    return prepare(str(folder / "r.yaml"), [folder / "log.csv"], folder / "data")


@pytest.fixture(scope="module")
def left(criteo_data, weighted_data, averaged_bags, tmp_path_factory) -> Callable[[str], list[dict[str, Any]]]:
    """`left(name)`: what each process of that group left."""
    folder = tmp_path_factory.mktemp("ranks")
    data = str(criteo_data.path)
    torch.set_num_threads(1)
    checkpoint_alone(criteo_data, SUBNET, folder / "from-1")
    whole = {"scenario": "train", "data": data, "steps": STEPS}
    adagrad = {"scenario": "tables", "optimizer": "adagrad"}
    warm = ["warmup", "synthetic/warmup", "--out", str(folder / "warm"), "--quiet", "--json", f"data={data}", "space.blocks=2",
            "warmup.data_share=0.02", "warmup.least_steps=10", "check.archs=2", "check.rows=300", "supernet.lr=0.03"]  # fmt: skip
    jobs = [
        {"name": "table-wise", "world": 4, **adagrad, "sharding": "table-wise"},
        {"name": "column-wise", "world": 2, **adagrad, "sharding": "column-wise"},
        {"name": "undivided", "world": 2, **adagrad, "sharding": None, "divides": False},
        {"name": "rowwise", "world": 2, "scenario": "tables", "optimizer": "rowwise-adagrad", "sharding": None},
        {"name": "subnet-2", "world": 2, **whole, "kind": "subnet", "settings": SUBNET, "evaluates": True},
        {"name": "subnet-4", "world": 4, **whole, "kind": "subnet", "settings": SUBNET, "evaluates": True},
        {"name": "supernet", "world": 2, **whole, "kind": "supernet", "settings": SUPERNET},
        {"name": "rowwise-run", "world": 2, **whole, "kind": "subnet", "settings": ROWWISE},
        {"name": "weighted", "world": 3, **whole, "data": str(weighted_data.path), "kind": "subnet", "settings": SUBNET, "evaluates": True},
        {"name": "bags", "world": 3, **whole, "data": str(averaged_bags.path), "kind": "subnet", "settings": SUBNET, "evaluates": True},
        {"name": "cut", "world": 2, **whole, "kind": "subnet", "settings": SUBNET, "stop": CUT, "keep": str(folder / "from-2")},
        {"name": "2-to-4", "world": 4, **whole, "kind": "subnet", "settings": SUBNET, "start": str(folder / "from-2")},
        {"name": "1-to-2", "world": 2, **whole, "kind": "subnet", "settings": SUBNET, "start": str(folder / "from-1")},
        {"name": "dies", "world": 3, "scenario": "faulty", "data": data, "how": "dies"},
        {"name": "ended", "world": 2, "scenario": "faulty", "data": data, "how": "ended"},
        {"name": "raises", "world": 3, "scenario": "faulty", "data": data, "how": "raises"},
        {"name": "nan", "world": 2, "scenario": "faulty", "data": data, "how": "nan"},
        {"name": "too-large", "world": 2, "scenario": "too_large"},
        {"name": "plain", "world": 2, "scenario": "embeddings_of", "data": data, "settings": {"embeddings": {"backend": "plain"}}},
        {"name": "row-wise", "world": 2, "scenario": "embeddings_of", "data": data, "settings": {"embeddings": {"sharding": "row-wise"}}},
        {"name": "warm", "world": 2, "scenario": "command", "argv": warm},
        {"name": "odd", "world": 3, "scenario": "command", "argv": [*warm[:3], str(folder / "odd"), *warm[4:], "supernet.batch_size=100"]},
    ]  # fmt: skip
    (folder / "jobs.json").write_text(json.dumps(jobs))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), str(folder / "jobs.json")],
        check=True, env=environment, timeout=300,
    )  # fmt: skip
    worlds = {job["name"]: job["world"] for job in jobs}

    def read(name: str) -> list[dict[str, Any]]:
        paths = [folder / f"{name}.{rank}.pt" for rank in range(worlds[name])]  # type: ignore[call-overload]
        return [torch.load(path, weights_only=False) if path.exists() else {} for path in paths]

    read.folder = folder  # type: ignore[attr-defined]
    return read


def returned(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for one in found:
        assert "returned" in one, one.get("trace", "the process left nothing")
    return [one["returned"] for one in found]


def close(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float = 2e-5) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


# Tables


def adagrad_by_hand(rowwise: bool) -> dict[str, Any]:
    """Dense gradients, one process, nothing clever."""
    start = build_embeddings(scenarios.Schema.of_shape(0, scenarios.TABLES), scenarios.WIDTH, "plain", seed=5)
    weights = [table.clone().double() for table in start.weights.values()]
    sums = [torch.zeros(len(w), dtype=torch.float64) if rowwise else torch.zeros_like(w) for w in weights]
    values, norms = [], []
    for step, (ids, grad) in enumerate(scenarios.table_batches()):
        values.append(torch.stack([w[ids[:, f]] for f, w in enumerate(weights)], 1))
        dense = [torch.zeros_like(w) for w in weights]
        for row in range(len(ids)):
            for f in range(len(weights)):
                dense[f][ids[row, f]] += grad[row, f].double()
        norms.append(sum(float(g.square().sum()) for g in dense) ** 0.5)
        for w, s, g in zip(weights, sums, dense):
            g *= 0.5
            s += g.square().mean(1) if rowwise else g.square()
            root = s.sqrt() + 1e-2
            w -= 0.1 / (1 + step) * g / (root[:, None] if rowwise else root)
    seen = torch.stack([w[scenarios.table_batches()[0][0][:, f]] for f, w in enumerate(weights)], 1)
    return {"values": values, "norms": norms, "weights": weights, "sums": sums, "seen": seen}


@needs_gloo
@pytest.mark.parametrize("name", ["table-wise", "column-wise", "undivided", "rowwise"])
def test_sharded_tables_equal_adagrad_by_hand(left, name: str):
    found, expected = returned(left(name)), adagrad_by_hand(name == "rowwise")
    for step, values in enumerate(expected["values"]):
        seen = torch.cat([one["values"][step] for one in found])
        torch.testing.assert_close(seen.double(), values, rtol=1e-5, atol=1e-6)
    for one in found:
        assert one["norms"] == pytest.approx(expected["norms"], rel=1e-5)
    torch.testing.assert_close(
        torch.cat([one["seen"] for one in found]).double(), expected["seen"], rtol=1e-5, atol=1e-6
    )
    for part in ("weights", "sums"):
        for table, mine in zip(found[0]["state"][part].values(), expected[part]):
            torch.testing.assert_close(table.double(), mine, rtol=1e-5, atol=1e-6)
        assert all(one["state"][part] == {} for one in found[1:])
    assert sum(one["bytes"] for one in found) == found[0]["all_bytes"]
    assert max(one["bytes"] for one in found) < found[0]["all_bytes"]  # really spread
    if name.endswith("-wise"):
        assert set(found[0]["ways"].values()) == {name.replace("-", "_")}


def test_column_wise_keeps_away_from_the_rowwise_optimizer_and_row_wise_from_cpus():
    assert allowed(None, "adagrad", "cpu") == ["table-wise", "column-wise"]
    assert allowed(None, "rowwise-adagrad", "cpu") == ["table-wise"]
    assert allowed(None, "rowwise-adagrad", "cuda") == ["table-wise", "row-wise"]
    with pytest.raises(ConfigError, match="one sum per whole row"):
        allowed("column-wise", "rowwise-adagrad", "cuda")
    with pytest.raises(ConfigError, match="CPU kernels cannot split a table by rows"):
        allowed("row-wise", "adagrad", "cpu")


# Shares of a batch


@pytest.mark.parametrize("shuffle", [False, True])
def test_shares_laid_end_to_end_are_the_batches_of_one_process(criteo_data, shuffle: bool):
    def loader(**more: Any) -> BatchLoader:
        return BatchLoader(criteo_data, "train", 96, shuffle=shuffle, seed=4, rows=9_506, **more)

    whole = list(loader().epoch())
    shares = [list(loader(rank=r, world=4, split_batches=True).epoch()) for r in range(4)]
    assert len(whole[-1]) == 2  # two processes of four have no row of it
    assert [one[-1].real for one in shares] == [1, 1, 0, 0]
    for number, batch in enumerate(whole):
        parts: list[PartBatch] = [one[number] for one in shares]  # type: ignore[misc]
        assert {part.whole for part in parts} == {len(batch)}
        assert len({len(part) for part in parts}) == 1  # all of one size
        for column in ("dense", "ids", "label"):
            joined = torch.cat([getattr(part, column)[: part.real] for part in parts])
            assert torch.equal(joined, getattr(batch, column))


def test_shares_are_contiguous_and_complete():
    for rows in range(1, 20):
        for world in range(1, 7):
            places = [share_of(100, 100 + rows, rank, world) for rank in range(world)]
            assert [p for start, stop in places for p in range(start, stop)] == list(range(100, 100 + rows))


# Training


@needs_gloo
@pytest.mark.parametrize("world", [2, 4])
def test_several_processes_train_as_one_does(criteo_data, left, world: int):
    found, expected = returned(left(f"subnet-{world}")), alone(criteo_data, "subnet", SUBNET)
    assert len(expected["losses"]) == STEPS
    for one in found:
        assert one["losses"] == pytest.approx(expected["losses"], rel=TOLERANCE)
        assert one["losses"] == found[0]["losses"]  # the same bits in every process
        for name, tensor in found[0]["network"].items():
            assert torch.equal(one["network"][name], tensor), name
        assert one["valid"] == found[0]["valid"]
    close(found[0]["tensors"], expected["tensors"])
    for metric in ("rows", "clicks"):
        assert found[0]["valid"][metric] == expected["valid"][metric]
    for metric in ("logloss", "auc", "calibration"):
        assert found[0]["valid"][metric] == pytest.approx(expected["valid"][metric], rel=1e-4)


@needs_gloo
def test_weights_of_rows_count_over_all_processes(weighted_data, left):
    found, expected = returned(left("weighted")), alone(weighted_data, "subnet", SUBNET)
    for one in found:
        assert one["losses"] == pytest.approx(expected["losses"], rel=TOLERANCE)
        assert one["valid"] == found[0]["valid"]
    close(found[0]["tensors"], expected["tensors"])
    for metric in ("logloss", "auc", "click_rate"):
        assert found[0]["valid"][metric] == pytest.approx(expected["valid"][metric], rel=1e-4)


@needs_gloo
def test_bags_are_pooled_and_their_tables_shared_over_processes(averaged_bags, left):
    found, expected = returned(left("bags")), alone(averaged_bags, "subnet", SUBNET)
    for one in found:
        assert one["losses"] == pytest.approx(expected["losses"], rel=TOLERANCE)
        assert one["valid"] == found[0]["valid"]
    close(found[0]["tensors"], expected["tensors"])
    assert not any("last" in name for name in found[0]["tensors"])


@needs_gloo
def test_clipping_was_at_work_and_is_by_the_norm_over_everything(criteo_data, left):
    """Otherwise the test above would pass with any norm."""
    unclipped = alone(criteo_data, "subnet", {**SUBNET, "clip": None})
    assert unclipped["losses"] != pytest.approx(returned(left("subnet-2"))[0]["losses"], rel=1e-3)


@needs_gloo
@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [("supernet", "supernet", SUPERNET), ("rowwise-run", "subnet", ROWWISE)],
)
def test_supernets_adamw_rowwise_state_and_limits_too(criteo_data, left, name, kind, settings):
    found, expected = returned(left(name)), alone(criteo_data, kind, settings)
    assert found[0]["losses"] == pytest.approx(expected["losses"], rel=TOLERANCE)
    assert found[1]["losses"] == found[0]["losses"]
    if kind == "supernet":
        # AdamW divides by the root of squares that may be nearly zero: there rounding decides where a single weight goes,
        # by no more than the learning rate per step. How many do depends on the processor: 46 of a million on one.
        differences = {n: (found[0]["tensors"][n] - tensor).abs() for n, tensor in expected["tensors"].items()}
        assert found[0]["tensors"].keys() == expected["tensors"].keys()
        assert sum(int((d > 2e-3).sum()) for d in differences.values()) <= 2e-4 * sum(
            map(torch.numel, differences.values())
        )
        assert max(float(d.max()) for d in differences.values() if d.numel()) <= STEPS * settings["lr"]
    else:
        close(found[0]["tensors"], expected["tensors"])
    for storage, tensor in found[0]["network"].items():
        assert torch.equal(found[1]["network"][storage], tensor), storage


@needs_gloo
def test_a_run_goes_on_with_another_number_of_processes(criteo_data, left):
    expected = alone(criteo_data, "subnet", SUBNET)
    from_two = left.folder / "from-2"
    saved, own = load_latest(from_two), load_latest(left.folder / "from-1")
    assert saved.step == own.step == CUT
    assert saved.facts.keys() == own.facts.keys()
    assert saved.facts["position"] == own.facts["position"]
    close(saved.tensors, own.tensors)  # the same names, shapes and values
    for found in (
        returned(left("2-to-4"))[0],
        returned(left("1-to-2"))[0],
        alone(criteo_data, "subnet", SUBNET, start=from_two),  # 2 to 1
    ):
        assert found["losses"] == pytest.approx(expected["losses"][CUT:], rel=TOLERANCE)
        close(found["tensors"], expected["tensors"])


# Faults


@needs_gloo
def test_a_fault_in_one_process_is_named_by_all(left):
    found = left("raises")
    assert found[1]["error"] == "DataError"
    for one in (found[0], found[2]):
        assert one["error"] == "OtherRankFailed"
        assert "another failed first. Process 1: row 7 is torn.\n  -> Prepare again." in one["text"]


@needs_gloo
def test_a_process_that_dies_leaves_no_one_waiting(left):
    first, dead, third = left("dies")
    assert dead == {}
    for one in (first, third):
        assert one["error"] == "RunError"
        assert "ended without a word (killed, or out of memory)" in one["text"]


@needs_gloo
def test_the_signal_that_ends_the_others_does_not_cut_their_message_short(left):
    first, dead = left("ended")
    assert dead == {}
    assert first["error"] == "RunError"
    assert "ended without a word (killed, or out of memory)" in first["text"]


@needs_gloo
def test_not_a_number_is_seen_by_all_in_the_same_step(left):
    found = left("nan")
    assert {one["error"] for one in found} <= {"NotFinite", "OtherRankFailed"}
    assert all("became nan at step 1 " in one["text"] for one in found)


@needs_gloo
@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "too-large",
            "need 25.6 MB in all, the largest piece (of column C2) 12.2 MB; 2 processes with 1.0 MB each",
        ),
        ("plain", "embeddings.backend=plain keeps all tables in one process, and there are 2."),
        ("row-wise", "torchrec's CPU kernels cannot split a table by rows"),
    ],
)
def test_what_cannot_be_is_refused_by_all(left, name: str, said: str):
    found = left(name)
    assert {one["error"] for one in found} <= {"ConfigError", "OtherRankFailed"}
    assert all(said in one["text"] for one in found)


def test_a_batch_that_does_not_divide():
    with pytest.raises(ConfigError, match="batch_size is 100, which 3 processes cannot share equally") as error:
        Ranks(0, 3).check_batch(100, "batch_size")
    assert "batch_size=99" in str(error.value)
    Ranks(0, 4).check_batch(100, "batch_size")


@needs_gloo
def test_the_command_refuses_such_a_batch_before_it_makes_a_run(left):
    assert [one["returned"] for one in left("odd")] == [2, 2, 2]
    said = "".join((left.folder / f"odd.{rank}.out").read_text() for rank in range(3))
    assert "supernet.batch_size is 100, which 3 processes" in said
    assert "Traceback" not in said
    assert not (left.folder / "odd").exists()


def test_a_process_on_its_own_joins_nothing(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    with join_ranks() as ranks:
        assert ranks == Ranks()
        assert ranks.share({"a": 1}) == {"a": 1}
    assert not dist.is_initialized()


# Commands


@needs_gloo
def test_warmup_by_two_is_the_warmup_of_one(criteo_data, left, tmp_path: Path, capsys):
    assert [one["returned"] for one in left("warm")] == [0, 0]
    by_two = json.loads((left.folder / "warm.0.out").read_text())
    assert (left.folder / "warm.1.out").read_text() == ""  # only the first speaks
    argv = ["warmup", "synthetic/warmup", "--out", str(tmp_path / "warm"), "--quiet", "--json", f"data={criteo_data.path}",
            "space.blocks=2", "warmup.data_share=0.02", "warmup.least_steps=10", "check.archs=2", "check.rows=300", "supernet.lr=0.03"]  # fmt: skip
    assert main(argv) == 0
    by_one = json.loads(capsys.readouterr().out)
    mean = "valid_logloss_of_subnets"
    assert by_two[mean]["mean"] == pytest.approx(by_one[mean]["mean"], rel=1e-4)
    assert {k: v for k, v in by_two.items() if k not in ("seconds", mean)} == {
        k: v for k, v in by_one.items() if k not in ("seconds", mean)
    }
    lines = [len((run / "ledger.jsonl").read_text().splitlines()) for run in (left.folder / "warm", tmp_path / "warm")]
    assert lines == [2, 2]
    # One process finds the run of two finished, and can score with it.
    argv[3] = str(left.folder / "warm")
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out)[mean] == by_two[mean]


@needs_gloo
def test_torchrun_trains_and_one_process_goes_on(criteo_data, tmp_path: Path, capsys):
    space = scenarios.NasrecSpace("nasrec-small", blocks=2)
    (tmp_path / "arch.json").write_text(dump_arch(space.sample(np.random.default_rng(1))))
    command = ["train", str(tmp_path / "arch.json"), "--data", str(criteo_data.path), "--json", "--quiet", "batch_size=100",
               "epochs=0.1", "optimizer=adagrad", "lr=0.03", "checkpoint_seconds=0.2"]  # fmt: skip
    started = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "recnas", *command,
         "--out", str(tmp_path / "two")],
        capture_output=True, text=True, timeout=200, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    by_two = json.loads(started.stdout)  # printed once
    assert main([*command, "--out", str(tmp_path / "one"), "--seeds", "2"]) == 0
    by_one = json.loads(capsys.readouterr().out)
    for split in ("valid", "test"):
        for metric in ("logloss", "auc"):
            ours, theirs = by_two[split][metric]["values"], by_one[split][metric]["values"]
            assert ours == pytest.approx(theirs[:1], rel=1e-3)
    assert main([*command, "--out", str(tmp_path / "two"), "--seeds", "2"]) == 0  # the second seed, by one
    both = json.loads(capsys.readouterr().out)
    assert both["valid"]["logloss"]["values"] == [
        *by_two["valid"]["logloss"]["values"],
        by_one["valid"]["logloss"]["values"][1],
    ]
    assert sorted(p.name for p in (tmp_path / "two").iterdir()) == sorted(p.name for p in (tmp_path / "one").iterdir())
