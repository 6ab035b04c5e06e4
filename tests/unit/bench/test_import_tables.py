"""Importing published tables: plain files, the authors' packages (stand-ins for them), and every kind of fault."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from recnas.bench.import_tables import import_table
from recnas.bench.nasbench201 import Nb201Table
from recnas.bench.vision_tables import VisionTable
from recnas.cli.main import main
from recnas.errors import BackendMissing, DataError
from recnas.space.nasbench201 import Nb201Space

CELLS = [Nb201Space().sample(np.random.default_rng(i)) for i in range(6)]
GENOTYPE = (
    "Genotype(normal=[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 1), "
    "('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)], normal_concat=[2, 3, 4, 5], reduce=[('max_pool_3x3', 0), "
    "('max_pool_3x3', 1), ('skip_connect', 2), ('max_pool_3x3', 1), ('max_pool_3x3', 0), ('skip_connect', 2), ('skip_connect', 2), "
    "('max_pool_3x3', 1)], reduce_concat=[2, 3, 4, 5])"
)


def plain_201(**changes) -> pa.Table:
    columns = {
        "arch": [cell.text for cell in CELLS], "cifar10_valid_12": [50.0, 60, 70, 80, 81, 82], "cifar10_test_200": [90.0, 91, 92, 93, 94, None],
        "note": list("abcdef"),
    }  # fmt: skip
    return pa.table(columns | changes)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_plain_file_of_201_becomes_the_table_recnas_reads(tmp_path: Path, suffix: str):
    source, out = tmp_path / f"in.{suffix}", tmp_path / "nb201.parquet"
    pacsv.write_csv(plain_201(), source) if suffix == "csv" else pq.write_table(plain_201(), source)
    found = import_table("nasbench201", source, out)
    assert (found["rows"], found["columns"]) == (6, ["index", "arch", "cifar10_valid_12", "cifar10_test_200"])
    table = Nb201Table.read(out)
    assert table.of(CELLS[3], "cifar10", "valid", 12) == 80
    assert np.isnan(table.of(CELLS[5], "cifar10", "test", 200))
    assert table.index_of(CELLS[4]) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cifar10_valid_12": [0.5] * 6}, "in percent"),
        ({"cifar10_valid_12": [500.0] * 6}, "in percent"),
        ({"arch": ["|nor_conv_3x3~0|"] * 6}, "row 1"),
        ({"arch": [CELLS[0].text] * 6}, "more than once"),
    ],
)
def test_faults_of_a_plain_file_are_named_and_nothing_is_written(tmp_path: Path, change, message):
    pq.write_table(plain_201(**change), tmp_path / "in.parquet")
    with pytest.raises(DataError) as error:
        import_table("nasbench201", tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert message in str(error.value)
    assert not (tmp_path / "out.parquet").exists()


def test_the_authors_package_of_201(tmp_path: Path, monkeypatch):
    class Api:
        def __len__(self):
            return len(CELLS)

        def arch(self, number):
            return CELLS[number].text

        def get_more_info(self, number, dataset, hp, is_random):
            assert is_random is False
            base = (
                {"cifar10-valid": 10, "cifar10": 20, "cifar100": 30, "ImageNet16-120": 40}[dataset]
                + number
                + int(hp) / 1000
            )
            return {"test-accuracy": base + 0.5} | ({} if dataset == "cifar10" else {"valid-accuracy": base})

    opened = []
    module = types.SimpleNamespace(create=lambda *args, **options: opened.append((args, options)) or Api())
    monkeypatch.setitem(sys.modules, "nats_bench", module)
    (tmp_path / "NATS").mkdir()
    import_table("nasbench201", tmp_path / "NATS", tmp_path / "out.parquet")
    assert opened[0][0] == (str(tmp_path / "NATS"), "tss")
    table = Nb201Table.read(tmp_path / "out.parquet")
    assert table.of(CELLS[2], "cifar10", "valid", 12) == pytest.approx(12.012, abs=1e-4)
    assert table.of(CELLS[2], "cifar10", "test", 200) == pytest.approx(22.7, abs=1e-4)
    assert table.of(CELLS[5], "imagenet16", "valid", 200) == pytest.approx(45.2, abs=1e-4)


def test_the_authors_package_of_101(tmp_path: Path, monkeypatch):
    class Api:
        def __init__(self, path):
            self.path = path

        def hash_iterator(self):
            return ["h1"]

        def get_metrics_from_hash(self, name):
            fixed = {
                "module_adjacency": np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]),
                "module_operations": ["input", "conv3x3-bn-relu", "output"],
                "trainable_parameters": 7,
            }
            runs = [
                {"final_validation_accuracy": v, "final_test_accuracy": v - 0.1, "final_training_time": 5.0}
                for v in (0.8, 0.9)
            ]
            return fixed, {4: runs, 108: runs}

    monkeypatch.setitem(sys.modules, "nasbench", types.SimpleNamespace(api=None))
    monkeypatch.setitem(sys.modules, "nasbench.api", types.SimpleNamespace(NASBench=Api))
    (tmp_path / "nb.tfrecord").write_bytes(b"")
    import_table("nasbench101", tmp_path / "nb.tfrecord", tmp_path / "out.parquet")
    table = VisionTable.read("nasbench101", tmp_path / "out.parquet")
    assert table.accuracy("valid", 108)[0] == pytest.approx(85)
    assert table.accuracy("test", 4)[0] == pytest.approx(75)
    assert np.isnan(table.accuracy("valid", 36)[0])
    assert table.archs[0].ops == ("conv3x3-bn-relu",)


def test_a_plain_file_of_101_has_shares_of_one(tmp_path: Path):
    """A cell of two vertices has no inner operation: its `ops` is empty."""
    columns = {"adjacency": ["010001000", "0100"], "ops": ["maxpool3x3", ""], "val_108": [0.9, 0.8], "params": [10, 20]}
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    import_table("nasbench101", tmp_path / "in.parquet", tmp_path / "out.parquet")
    table = VisionTable.read("nasbench101", tmp_path / "out.parquet")
    np.testing.assert_allclose(table.accuracy("valid", 108), [90, 80])
    assert len(table) == 2


def test_a_plain_file_of_301(tmp_path: Path):
    pq.write_table(pa.table({"genotype": [GENOTYPE], "val_98": [94.2]}), tmp_path / "in.parquet")
    import_table("nasbench301", tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert VisionTable.read("nasbench301", tmp_path / "out.parquet").accuracy("valid", 98).tolist() == [94.2]
    (tmp_path / "model").mkdir()
    with pytest.raises(DataError, match="models that predict"):
        import_table("nasbench301", tmp_path / "model", tmp_path / "out.parquet")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"ops": ["maxpool3x3"], "val_108": [0.9]}, "no column adjacency"),
        ({"adjacency": ["010001000"], "ops": ["maxpool3x3"]}, "val_<epochs>"),
        ({"adjacency": ["010001000"], "ops": ["conv9x9"], "val_108": [0.9]}, "row 1"),
        ({"adjacency": ["010001000"], "ops": ["maxpool3x3"], "val_108": [-3.0]}, "no accuracy"),
    ],
)
def test_faults_of_101(tmp_path: Path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    with pytest.raises(DataError) as error:
        import_table("nasbench101", tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert message in str(error.value)


@pytest.mark.parametrize(("kind", "module"), [("nasbench201", "nats_bench"), ("nasbench101", "nasbench.api")])
def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch, kind, module):
    monkeypatch.setitem(sys.modules, module, None)
    source = tmp_path / "official"
    source.mkdir()
    with pytest.raises(BackendMissing, match="not installed") as error:
        import_table(kind, source, tmp_path / "out.parquet")
    assert "pip install" in str(error.value)


def test_a_missing_table_says_where_it_comes_from_and_what_to_type(tmp_path: Path, capsys):
    assert main(["bench", "import", "nasbench101", "--from", str(tmp_path / "none"), "--out", "x.parquet"]) == 2
    said = capsys.readouterr().err
    assert "google-research/nasbench" in said
    assert "recnas bench import nasbench101 --from FILE" in said
    assert main(["bench", "import", "nasbench102", "--from", "x", "--out", "y"]) == 2
    assert "nasbench101" in capsys.readouterr().err
    assert main(["bench", "import"]) == 2
