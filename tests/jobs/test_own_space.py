"""A CTR space with an operator of its own, made outside the package in two files, goes through every command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.cli.main import main
from recnas.model.nasrec.subnet import Subnet
from recnas.model.nasrec.supernet import Supernet
from recnas.runs.ledger import Ledger
from recnas.runs.records import read_lines
from recnas.space.nasrec.cost import count
from recnas.space.nasrec.layers import NetShape
from recnas.space.registry import get_space
from recnas.testing.space_suite import SpaceConformance
from tests.jobs.own_space import product_forward
from tests.jobs.own_space.product_space import NAME
from tests.jobs.search_helpers import as_yaml, small_search


class TestTheSpace(SpaceConformance):
    def space(self):
        return get_space(NAME, blocks=3)


@pytest.fixture(scope="module")
def finished(criteo_data, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    settings = small_search(criteo_data.path, space={"name": NAME, "blocks": 3})
    config = as_yaml(settings, folder / "own.yaml")
    assert main(["search", str(config), "--out", str(folder / "run"), "--workers", "1", "--quiet"]) == 0
    return folder / "run"


def test_a_search_uses_the_operator(finished: Path):
    lines = read_lines("search", Ledger(finished / "ledger.jsonl").read(), "the ledger")
    used = {
        op for line in lines if line.event == "candidate" for block in line.arch["blocks"] for op in block["dense_ops"]
    }
    assert used == {"fc", "dot", "product"}


def test_warm_up_score_cost_draw_and_export(finished: Path, criteo_data, criteo_file: Path, tmp_path: Path, capsys):
    warm = tmp_path / "warm"
    small = [
        f"data={criteo_data.path}",
        f"space.name={NAME}",
        "space.blocks=3",
        "warmup.data_share=0.05",
        "check.archs=2",
    ]
    assert main(["warmup", "synthetic/warmup", "--out", str(warm), "--quiet", *small]) == 0
    assert main(["score", str(warm), "--random", "3", "--workers", "1", "--quiet", "batches=2", "batch_size=64"]) == 0
    assert main(["cost", f"{finished}:best", "--data", str(criteo_data.path)]) == 0
    assert main(["draw", f"{finished}:best", "-o", str(tmp_path / "best.svg")]) == 0
    assert main(["report", str(finished), "-o", str(tmp_path / "report.html")]) == 0
    served = tmp_path / "served"
    assert main(["export", f"{finished}:best", "--to", "pt2", "--out", str(served)]) == 0
    capsys.readouterr()
    row = criteo_file.read_text().splitlines()[0] + "\n"
    given = subprocess.run(
        [sys.executable, str(served / "score_row.py")], input=row, capture_output=True, text=True, check=True
    )
    assert 0 < float(given.stdout) < 1


def test_inside_the_supernet_it_is_the_network_that_stands_alone():
    space, shape = get_space(NAME, blocks=3), NetShape(13, 26)
    supernet = Supernet(space, shape, torch.Generator().manual_seed(0)).double()
    rng = np.random.default_rng(1)
    dense, embedded = torch.rand(4, 13, dtype=torch.float64), torch.rand(4, 26, 16, dtype=torch.float64)
    met = 0
    while met < 5:
        arch = space.sample(rng)
        alone = Subnet(arch, supernet.shape).double().copy_from(supernet)
        torch.testing.assert_close(supernet.candidate(arch)(dense, embedded), alone(dense, embedded))
        met += any("product" in block.dense_ops for block in arch.blocks)


def test_what_is_counted_is_what_is_built(criteo_data):
    space, schema = get_space(NAME, blocks=3), criteo_data.schema
    rng = np.random.default_rng(2)
    for _ in range(20):
        arch = space.sample(rng)
        network = Subnet(arch, NetShape.of(schema))
        assert sum(p.numel() for p in network.parameters()) == count(arch, schema).params


def test_two_files_were_enough():
    files = sorted(path.name for path in Path(product_forward.__file__).parent.glob("*.py"))
    assert files == ["product_forward.py", "product_space.py"]
