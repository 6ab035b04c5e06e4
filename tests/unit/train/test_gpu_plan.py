"""Plans for devices that are not here: the sums, what is said when nothing fits, and that no GPU is touched."""

from __future__ import annotations

import json
import re

import pytest
import torch

from recnas.cli.main import main
from recnas.cli.plan import ranges
from recnas.data.known_tables import KNOWN, known_tables
from recnas.errors import BackendMissing, ConfigError
from recnas.model.embeddings.fused import load_kernels
from recnas.space.nasrec import NasrecSpace
from recnas.space.nasrec.cost import count
from recnas.space.plus.arch import Head, PlusArch
from recnas.space.settings import SpaceSettings
from recnas.train.gpu_plan import KEPT_FREE, Devices, DoesNotFit, ShardingForecast, plan
from recnas.train.settings import TrainSettings

GB = 2**30
TERABYTE = KNOWN["criteo-1tb"]

try:
    load_kernels()
except BackendMissing as error:
    pytest.skip(error.what, allow_module_level=True)


@pytest.fixture(autouse=True)
def no_gpu_is_asked(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("CUDA was asked for")

    monkeypatch.setattr(torch.cuda, "_lazy_init", refuse)


def make(gpus: int, memory: int = 80 * GB, hosts: int = 1, batch: int = 8192, **tables) -> ShardingForecast:
    settings = TrainSettings(optimizer="adagrad", embeddings=tables)
    return plan(TERABYTE.schema(), SpaceSettings(name="nasrec-small"), settings, Devices(gpus, memory, hosts), batch)


def test_the_published_sizes_are_whole():
    assert sum(TERABYTE.rows) == 882_774_559
    assert sum(KNOWN["criteo"].rows) == 33_762_577
    assert max(KNOWN["criteo-1tb-40m"].rows) < 40_000_000
    for known in KNOWN.values():
        assert len(known.rows) == 26
        assert known.source
    with pytest.raises(ConfigError, match="did you mean 'criteo-1tb'"):
        known_tables("criteo-1bt")


@pytest.mark.parametrize(("gpus", "hosts"), [(8, 1), (64, 8)])
@pytest.mark.parametrize("optimizer", ["adagrad", "rowwise-adagrad"])
def test_memory_adds_up(gpus: int, hosts: int, optimizer: str):
    found = make(gpus, hosts=hosts, optimizer=optimizer)
    assert len(found.uses) == gpus
    rows = sum(TERABYTE.rows) + 2 * 26
    # Every value is somewhere, once; row-wise pieces may be padded by less than a row each.
    assert sum(use.tables for use in found.uses) == pytest.approx(4 * 16 * rows, rel=1e-6)
    per_row = 4 * (16 if optimizer == "adagrad" else 1)
    assert sum(use.state for use in found.uses) == pytest.approx(per_row * rows, rel=1e-6)
    # The same from the printed plan, for the ways that give equal pieces.
    held = [0.0] * gpus
    for table in found.tables:
        for device in table.devices:
            held[device] += table.bytes / len(table.devices)
    for use, expected in zip(found.uses, held):
        assert use.tables + use.state == pytest.approx(expected, rel=1e-3)
    full = count(NasrecSpace("nasrec-small").full_path(), TERABYTE.schema())
    for use in found.uses:
        assert use.network == 3 * 4 * full.params + min(4 * full.params, 2**26)  # weights, gradients, sums, buffer
        assert (use.batches > 0) == (use.tables > 0)
        assert use.total == use.tables + use.state + use.batches + use.network + use.activations
        assert use.total <= (1 - KEPT_FREE) * 80 * GB
    assert found.network_params == full.params
    assert found.milliseconds > 0


def test_more_devices_lower_the_peak():
    peaks = [make(gpus).fullest.total for gpus in (2, 4, 8)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] > 2 * peaks[2]


def test_limits_and_width_are_those_of_the_config():
    whole, capped = make(8), make(8, cap=1_000_000)
    assert max(table.rows for table in capped.tables) == 1_000_000
    assert capped.fullest.tables < whole.fullest.tables / 10
    wide = make(64, hosts=8, width=64)
    assert sum(use.tables for use in wide.uses) == pytest.approx(4 * sum(use.tables for use in whole.uses), rel=1e-6)
    assert all(len(table.devices) == 1 for table in whole.tables if table.rows < 100_000)  # no slivers


def test_what_does_not_fit_says_by_how_much_and_what_does():
    with pytest.raises(DoesNotFit) as error:
        make(2, 40 * GB, width=64)
    text = str(error.value)
    need = 2 * 4 * 64 * (sum(TERABYTE.rows) + 52) / GB
    room, over = (float(n) for n in re.search(r"room for ([\d.]+) GB .*: ([\d.]+) GB too much", text).groups())
    assert f"need {need:.1f} GB" in text
    assert over == pytest.approx(need - room, abs=0.11)
    assert room < 2 * 36
    said = dict(
        item.split("=") if "=" in item else item.split()
        for item in text.split("What fits: ")[1].rstrip(".").split("; ")
    )
    assert set(said) == {"--gpus", "supernet.embeddings.width", "supernet.embeddings.hash_rows"}
    assert make(int(said["--gpus"]), 40 * GB, hosts=2, width=64)
    assert make(2, 40 * GB, width=int(said["supernet.embeddings.width"]))
    assert make(2, 40 * GB, width=64, hash_rows=int(said["supernet.embeddings.hash_rows"]))
    with pytest.raises(DoesNotFit):  # and less would not do
        make(int(said["--gpus"]) // 2, 40 * GB, width=64)
    with pytest.raises(DoesNotFit):
        make(2, 40 * GB, width=int(said["supernet.embeddings.width"]) + 4)


def test_the_rowwise_optimizer_is_offered_where_it_helps():
    with pytest.raises(DoesNotFit, match=r"supernet\.embeddings\.optimizer=rowwise-adagrad"):
        make(1, 70 * GB, batch=64)
    assert make(1, 70 * GB, batch=64, optimizer="rowwise-adagrad").tables[0].split == "table_wise"


def test_a_network_that_leaves_no_room():
    with pytest.raises(DoesNotFit, match="the network alone leaves no room"):
        make(8, 8 * GB, batch=65_536)


def test_bad_numbers():
    with pytest.raises(ConfigError, match="every host has as many"):
        Devices(9, 80 * GB, 2)
    with pytest.raises(ConfigError, match="does not divide among 7 devices") as error:
        make(7, batch=512)
    assert "--batch 511" in str(error.value)


@pytest.mark.parametrize("gpus", [8, 64])
def test_the_command(gpus: int, capsys):
    argv = [
        "plan",
        "criteo/warmup",
        "--tables",
        "criteo-1tb",
        "--gpus",
        str(gpus),
        "--memory",
        "80GB",
        "--batch",
        "65536",
    ]
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert "882,774,611 rows" in text
    assert f"{gpus} GPUs of 80.0 GB on {gpus // 8} host(s)" in text
    assert "estimate from bandwidths it assumes, not a measurement" in text
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["tables"]) == 26
    assert len(found["uses"]) == gpus
    assert found["peak_bytes"] == max(use["total"] for use in found["uses"])
    assert "Criteo 1TB" in found["source"]


def test_the_command_on_prepared_data_and_on_a_search_config(criteo_data, capsys):
    argv = ["--gpus", "2", "--memory", "4GB", "--data", str(criteo_data.path), "--json"]
    assert main(["plan", "synthetic/warmup", *argv]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [table["column"] for table in found["tables"]] == [field.name for field in criteo_data.schema.sparse]
    assert main(["plan", "criteo/sigeo-sub-one-shot", *argv, "supernet.batch_size=64"]) == 0
    assert json.loads(capsys.readouterr().out)["batch"] == 64


def test_ranges():
    assert ranges((3, 0, 1, 2, 2, 7)) == "0-3, 7"


def test_tables_of_different_widths_are_kept_in_one_process():
    arch = PlusArch("nasrec-plus", (), Head((), (0,)), narrow=((0, 0.5),))
    with pytest.raises(ConfigError, match="different widths") as error:
        plan(TERABYTE.schema(), SpaceSettings(name="nasrec-plus"), TrainSettings(), Devices(8, 80 * GB), arch=arch)
    assert "without narrow" in error.value.fix
