"""Spark prepares the same bytes as the local engine, whatever the input, and says why when it cannot."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recnas.data.prepare import stages
from recnas.data.prepare.chunks import ChunkWriter
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.prepare.spark import session as session_module
from recnas.data.prepare.spark.session import check_master, first_task
from recnas.data.prepared import PreparedData
from recnas.data.raw.sources import ReadySplit
from recnas.data.synthetic import generate
from recnas.errors import BackendMissing, ConfigError, DataError, RunError
from recnas.resources import resource_dir

pytestmark = pytest.mark.spawns

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'recnas[spark]'")
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="there is no java on the PATH")
SMALL = 256 << 20  # memory for which blocks are 2 MB


@pytest.fixture(scope="session")
def spark():
    """One session for the whole file: its start takes seconds. `prepare` finds and uses it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # short jobs: no time to optimize
    with session_module.spark_session("local[2]", 2, 1 << 30, 0) as session:
        del os.environ["JAVA_TOOL_OPTIONS"]
        yield session


def same(one: PreparedData, two: PreparedData) -> bool:
    """Everything that was written: arrays, vocabularies, Parquet copies, counts, rejects."""
    return one.fingerprint == two.fingerprint and one.manifest == two.manifest


class DiesOnce(ChunkWriter):
    """Kills its own process in the middle of the second block, as the system's memory guard would."""

    def text_block(self, file: int, block: int, text: bytes):
        mark = self.folder / "killed"
        if block == 1 and not mark.exists():
            mark.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().text_block(file, block, text)


@needs_java
def test_criteo_with_a_killed_worker(spark, criteo_file: Path, criteo_data: PreparedData, tmp_path: Path, monkeypatch):
    seen: list[int] = []
    finish = stages.Preparation._finish

    def look(self, *args):
        seen.append(int((self.work / "chunks" / "killed").read_text()))
        seen.append(len(list((self.work / "parts").iterdir())))
        return finish(self, *args)

    monkeypatch.setattr(stages, "ChunkWriter", DiesOnce)
    monkeypatch.setattr(stages.Preparation, "_finish", look)
    monkeypatch.chdir(tmp_path)  # a relative --out must reach workers that are elsewhere
    found = prepare("criteo", [criteo_file], "d", PrepareOptions(min_count=5), memory=SMALL, engine="spark")
    assert not Path(f"/proc/{seen[0]}").exists()
    assert seen[1] >= 2  # blocks were really encoded apart
    assert same(found, criteo_data)
    assert found.verify() == []


class AlwaysDies(ChunkWriter):
    def text_block(self, file: int, block: int, text: bytes):
        os.kill(os.getpid(), signal.SIGKILL)


@needs_java
def test_a_block_that_always_kills_its_worker_ends_in_a_sentence(spark, tmp_path: Path, monkeypatch):
    generate("criteo", 200, 1, tmp_path / "c.tsv")
    monkeypatch.setattr(stages, "ChunkWriter", AlwaysDies)
    with pytest.raises(RunError, match="Spark gave up: ") as caught:
        prepare("criteo", [tmp_path / "c.tsv"], tmp_path / "d", engine="spark")
    assert len(str(caught.value).splitlines()) == 2
    assert "same command again" in caught.value.fix


@needs_java
def test_avazu_in_parts_by_day(spark, tmp_path: Path):
    generate("avazu", 4000, 3, tmp_path / "a.csv")
    header, *rows = (tmp_path / "a.csv").read_text().splitlines(keepends=True)
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "part-2.csv").write_text("".join([header, *rows[2500:]]))
    (folder / "part-0.csv").write_text("".join([header, *rows[:1000]]))
    (folder / "part-1.csv.gz").write_bytes(gzip.compress("".join([header, *rows[1000:2500]]).encode()))
    (folder / "_SUCCESS").write_text("")
    options = PrepareOptions(protocol="time-last-day", min_count=1)
    local = prepare("avazu", [folder], tmp_path / "local", options)
    found = prepare("avazu", [folder], tmp_path / "spark", options, engine="spark")
    assert same(found, local)


@needs_java
def test_kdd12_with_its_side_file_balanced_limited_and_capped(spark, tmp_path: Path):
    generate("kdd12", 4000, 2, tmp_path / "k.tsv")
    options = PrepareOptions(
        protocol="autoctr-8-1-1", min_count=2, limit=3001, cap=50, with_columns=("impressions",), parquet=False
    )
    local = prepare("kdd12", [tmp_path / "k.tsv"], tmp_path / "local", options)
    found = prepare("kdd12", [tmp_path / "k.tsv"], tmp_path / "spark", options, engine="spark")
    assert same(found, local)
    assert found.manifest["rows_in"] == 3001


@needs_java
def test_a_ready_split_with_bad_rows(spark, tmp_path: Path):
    header, *rows = (resource_dir("datasets") / "frappe_x1/sample.csv").read_text().splitlines(keepends=True)
    rows[5] = "2" + rows[5][1:]  # no label
    (tmp_path / "a.csv").write_text("".join([header, *rows[:30]]))
    (tmp_path / "b.csv").write_text("".join([header, *rows[30:40]]))
    (tmp_path / "v.csv.gz").write_bytes(gzip.compress("".join([header, *rows[40:50]]).encode()))
    (tmp_path / "t.csv").write_text("".join([header, *rows[50:]]))
    raw = ReadySplit([tmp_path / "a.csv", tmp_path / "b.csv"], [tmp_path / "v.csv.gz"], [tmp_path / "t.csv"])
    local = prepare("frappe_x1", raw, tmp_path / "local", PrepareOptions(on_error="skip"))
    found = prepare("frappe_x1", raw, tmp_path / "spark", PrepareOptions(on_error="skip"), engine="spark")
    assert same(found, local)
    assert found.manifest["rows"] == {"train": 39, "valid": 10, "test": 10}


@needs_java
def test_parquet_parts_with_strings_and_a_given_split(spark, tmp_path: Path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "label": rng.integers(0, 2, 900),
            "price": rng.random(900).round(2),
            "seen": np.where(rng.random(900) < 0.1, np.nan, 1.7e9 + rng.integers(0, 10**5, 900)),  # is standardised
            "user": rng.choice(["Zürich", "b", "", "d e"], 900),
            # Half of these are negative where integers are signed, as Spark's are: order among equals shows it.
            "big": rng.integers(0, 300, 900).astype(np.uint64) * np.uint64(2**63 // 150),
            "void": [None] * 900,
        }
    )
    frame["void"] = frame["void"].astype("string")
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in range(3):
        frame[300 * number : 300 * (number + 1)].to_parquet(folder / f"part-{number}.parquet")
    np.save(tmp_path / "index.npy", rng.integers(0, 3, 900).astype(np.uint8))
    (tmp_path / "p.yaml").write_text(
        "name: p\nformat: parquet\nlabel: {column: label}\ndense: [{columns: [price, seen]}]\n"
        "sparse: [{columns: [user, void], kind: string}, {columns: [big], kind: int}]\n"
    )
    options = PrepareOptions(protocol="index", split_index=str(tmp_path / "index.npy"), vocab_scope="all")
    local = prepare(str(tmp_path / "p.yaml"), [folder], tmp_path / "local", options)
    found = prepare(str(tmp_path / "p.yaml"), [folder], tmp_path / "spark", options, engine="spark")
    assert same(found, local)
    assert found.schema.sparse[1].rows == 2  # a column without a single value
    assert [field.standardised for field in found.schema.dense] == [False, True]
    assert "no-values" in [warning.kind for warning in found.warnings]
    (tmp_path / "p.yaml").write_text("name: p\nformat: parquet\nlabel: {column: label}\ndense: [{columns: [price]}]\n")
    local = prepare(str(tmp_path / "p.yaml"), [folder], tmp_path / "local-dense", options)
    assert same(prepare(str(tmp_path / "p.yaml"), [folder], tmp_path / "spark-dense", options, engine="spark"), local)


@needs_java
def test_bad_rows_are_named_or_skipped_as_by_the_local_engine(spark, criteo_file: Path, tmp_path: Path):
    rows = criteo_file.read_text().splitlines(keepends=True)[:2000]
    rows[700] = rows[700].replace("\t", "\tx", 1)
    rows[1500] = "too short\n"
    first, second = tmp_path / "bad-0.tsv", tmp_path / "bad-1.tsv"
    first.write_text("".join(rows[:400]))
    second.write_text("".join(rows[400:]))
    told = []
    for engine in ("local", "spark"):
        with pytest.raises(DataError) as caught:
            prepare("criteo", [first, second], tmp_path / f"stop-{engine}", engine=engine)
        assert not (tmp_path / f"stop-{engine}").exists()
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert "bad-1.tsv line 301" in told[0]
    options = PrepareOptions(on_error="skip")
    local = prepare("criteo", [first, second], tmp_path / "local", options)
    found = prepare("criteo", [first, second], tmp_path / "spark", options, engine="spark")
    assert same(found, local)
    assert found.manifest["rejects"] == 2
    assert (found.path / "rejects.tsv").read_text() == (local.path / "rejects.tsv").read_text()


@needs_java
def test_the_same_command_continues_and_mends(
    spark, criteo_file: Path, criteo_data: PreparedData, tmp_path: Path, monkeypatch
):
    from recnas.data.prepare.spark.prepare import SparkPreparation

    def stop(*_):
        raise KeyboardInterrupt

    def run() -> PreparedData:
        return prepare(
            "criteo", [criteo_file], tmp_path / "d", PrepareOptions(min_count=5), memory=SMALL, engine="spark"
        )

    with monkeypatch.context() as patch:
        patch.setattr(SparkPreparation, "_string_together", stop)
        with pytest.raises(KeyboardInterrupt):
            run()
    work = tmp_path / "d" / ".work"
    chunks = sorted((work / "chunks").glob("*.chunk"))
    stamps = [chunk.stat().st_mtime_ns for chunk in chunks]
    counted = (work / "counts" / "_SUCCESS").stat().st_mtime_ns
    damaged = work / "parts" / chunks[0].stem / "train" / "ids.i32"
    data = bytearray(damaged.read_bytes())
    data[40] ^= 255
    damaged.write_bytes(data)
    kept: list[int] = []
    with monkeypatch.context() as patch:
        finish = SparkPreparation._finish
        patch.setattr(
            SparkPreparation,
            "_finish",
            lambda self, *args: (
                kept.extend(chunk.stat().st_mtime_ns for chunk in chunks),
                kept.append((work / "counts" / "_SUCCESS").stat().st_mtime_ns),
                finish(self, *args),
            )[-1],
        )
        assert same(run(), criteo_data)
    assert kept == [*stamps, counted]  # nothing that was whole was made again


@needs_java
def test_a_cluster_without_room_is_given_up_on(spark):
    def slow(_: int) -> int:
        time.sleep(3)
        return 1

    with pytest.raises(RunError, match="No Spark executor took a task within 1 seconds"):
        first_task(spark, slow, seconds=1.0)


def test_masters_are_checked_in_seconds():
    assert check_master("local[3]") == "local[3,4]"  # or a task that dies would end the job
    assert check_master("local[*]") == "local[*,4]"
    assert check_master("local") == "local[1,4]"
    assert check_master("yarn") == "yarn"
    with pytest.raises(ConfigError, match="'localhost' is not a master"):
        check_master("localhost")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(RunError, match=f"no Spark master at spark://127.0.0.1:{port} .*refused") as caught:
        check_master(f"spark://127.0.0.1:{port}")
    assert "local[4]" in str(caught.value)
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"spark://127.0.0.1:{port},127.0.0.1:{server.getsockname()[1]}"
        assert check_master(master) == master


def test_options_that_do_not_fit(tmp_path: Path):
    with pytest.raises(ConfigError, match="--spark-master goes with --engine spark"):
        prepare("criteo", [tmp_path / "a"], tmp_path / "d", spark_master="local[2]")
    with pytest.raises(DataError, match="s3://logs/day-1 is not a path"):
        prepare("criteo", ["s3://logs/day-1"], tmp_path / "d", engine="spark")
    with pytest.raises(ConfigError, match="no engine 'flink'"):
        prepare("criteo", [tmp_path / "a"], tmp_path / "d", engine="flink")


def test_without_java_or_pyspark_it_says_what_to_install(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BackendMissing, match="has no bin/java") as caught:
        session_module._check_java()
    assert "openjdk-17" in str(caught.value)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendMissing, match="no java on the PATH"):
        session_module._check_java()
    monkeypatch.undo()

    def without(name: str):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(session_module.importlib, "import_module", without)
    with pytest.raises(BackendMissing) as missing, session_module.spark_session("local[2]", 2, 1 << 30, 0):
        pass
    assert "pip install 'recnas[spark]'" in str(missing.value)


@needs_java
@pytest.mark.parametrize("protocol", ["random-8-1-1", "autoctr-8-1-1"])
def test_weights_of_rows(protocol: str, spark, weighted_rows, weighted_recipe: Path, tmp_path: Path):
    rows = weighted_rows(60_000).astype({"heavy": object})  # two blocks
    rows.loc[[5, 40_000], "heavy"] = ["-1", "x"]
    rows.to_csv(tmp_path / "log.csv", index=False)
    options = PrepareOptions(protocol=protocol, on_error="skip")
    given = (str(weighted_recipe), [tmp_path / "log.csv"])
    local = prepare(*given, tmp_path / "local", options, memory=SMALL)
    found = prepare(*given, tmp_path / "spark", options, memory=SMALL, engine="spark")
    assert same(found, local)
    assert found.manifest["rejects"] == 2
    assert np.array_equal(found.array("train", "weight"), local.array("train", "weight"))


@needs_java
def test_a_split_without_any_weight(spark, weighted_rows, weighted_recipe: Path, tmp_path: Path):
    parts = {}
    for name in ("train", "valid", "test"):
        weighted_rows(100).assign(heavy=0 if name == "test" else 1).to_csv(tmp_path / f"{name}.csv", index=False)
        parts[name] = [tmp_path / f"{name}.csv"]
    with pytest.raises(DataError, match="All rows of the test split have weight 0"):
        prepare(str(weighted_recipe), ReadySplit(**parts), tmp_path / "d", engine="spark", memory=SMALL)


LOG = """
name: log
separator: ","
header: true
label: {column: y}
dense: [{columns: [number], transform: quantile, embed: true, indicator: true}, {columns: [price], transform: bucketise}]
sparse: [{columns: [item, maker]}, {columns: [price_word], hash: 20, hashes: 2}, {columns: [at], kind: time, derive: {hour: hour, weekday: weekday}}]
time: {column: at, format: epoch-seconds, zone: "+01:00"}
joins: [{file: items.txt, key: item, separator: "|", header: false, add: [maker]}]
group: user
shares: [0.7, 0.2, 0.1]
negatives: 0.3
"""


@needs_java
@pytest.mark.parametrize("protocol", ["time-ratio", "group"])
def test_a_log_of_a_team(spark, tmp_path: Path, protocol: str):
    rng = np.random.default_rng(3)
    lines = [
        f"{i % 2},{i},i{rng.integers(20)},{1_709_251_200 + int(rng.integers(5 * 86400))},u{rng.integers(50)},{i % 7 or ''},w{i % 40}"
        for i in range(600)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["y,number,item,at,user,price,price_word", *lines]) + "\n")
    (tmp_path / "items.txt").write_text("".join(f"i{n}|m{n % 3}\n" for n in range(15)))
    (tmp_path / "r.yaml").write_text(LOG)
    options = PrepareOptions(protocol=protocol)
    local = prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "local", options)
    found = prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / "spark", options, engine="spark")
    assert same(found, local)
    if protocol == "group":
        lines = [line.replace(",i", ",j") for line in lines[::2]]
        (tmp_path / "next.csv").write_text("\n".join(["y,number,item,at,user,price,price_word", *lines]) + "\n")
        grown = PrepareOptions(extend=str(tmp_path / "local"), protocol="random")
        two = [
            prepare(None, [tmp_path / "next.csv"], tmp_path / f"next-{engine}", grown, engine=engine)
            for engine in ("local", "spark")
        ]
        assert same(*two)
        assert two[0].schema.table_rows > local.schema.table_rows


@needs_java
def test_bags_and_sequences_of_several_files(spark, bagged_rows, bagged_recipe: Path, tmp_path: Path):
    rows = bagged_rows(3000)
    rows["seen"] = rows["late"] = rows["last"]
    hashed = "  - {columns: [seen], separator: ' ', hash: 30}\n  - {columns: [late], separator: ' ', shares: seen}\n"
    recipe = tmp_path / "r.yaml"
    recipe.write_text(bagged_recipe.read_text().replace("sequences:", f"{hashed}sequences:"))
    for number in range(3):
        rows[number * 1000 : (number + 1) * 1000].to_csv(tmp_path / f"{number}.csv", index=False)
    raw = [tmp_path / f"{number}.csv" for number in range(3)]
    options = PrepareOptions(min_count=2, limit=2500)
    local = prepare(str(recipe), raw, tmp_path / "local", options)
    found = prepare(str(recipe), raw, tmp_path / "spark", options, engine="spark")
    assert same(found, local)
    assert found.verify() == []
    assert sum(facts["last"]["cut"] for facts in found.manifest["bags"].values()) > 100


@needs_java
def test_bags_and_several_labels_of_an_origin(spark, bagged_rows, bagged_recipe: Path, tmp_path: Path):
    rows = bagged_rows(1500)
    rows.insert(1, "bought", rows.clicked * (np.arange(1500) % 3 == 0))
    rows.insert(2, "at", 1_700_000_000 + np.arange(1500) * 37 % 900)
    rows.to_csv(tmp_path / "log.csv", index=False)
    labels = "labels: [{column: clicked}, {column: bought, weight: 0.5}]"
    time = "\nnegatives: 0.6\ntime: {column: at, format: epoch-seconds, zone: '+00:00'}\n"
    (tmp_path / "r.yaml").write_text(bagged_recipe.read_text().replace("label: {column: clicked}", labels) + time)
    options = PrepareOptions(protocol="rolling", origin=2, window=0.1, vocab_scope="all")
    made = [
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / engine, options, engine=engine)
        for engine in ("local", "spark")
    ]
    assert same(*made)
    assert made[1].verify() == []
    assert made[1].manifest["later"] > 100
    assert np.asarray(made[1].array("test", "label")).shape == (made[1].rows("test"), 2)


@needs_java
def test_several_labels(spark, tmp_path: Path):
    rows = [f"{i % 3 % 2},{i % 6 // 5},{i * 37 % 101},user {i * i % 11}\n" for i in range(900)]
    (tmp_path / "log.csv").write_text("".join(rows))
    (tmp_path / "r.yaml").write_text(
        'name: both\nseparator: ","\ncolumns: [click, bought, a, u]\nlabels: [{column: click}, {column: bought, weight: 2}]\n'
        "dense: [{columns: [a]}]\nsparse: [{columns: [u]}]\n"
    )
    made = [
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / engine, engine=engine)
        for engine in ("local", "spark")
    ]
    assert same(*made)
    assert np.asarray(made[1].array("train", "label")).shape == (made[1].rows("train"), 2)


@needs_java
@pytest.mark.parametrize("time", ["{column: at, format: epoch-seconds, zone: '+00:00'}", "{days: 10}"])
def test_an_origin_of_a_rolling_split(spark, tmp_path: Path, time: str):
    rows = [f"{i % 3 % 2},{1_700_000_000 + i * 37 % 900 // 4},{i * 37 % 101},user {i * i % 11}\n" for i in range(900)]
    (tmp_path / "log.csv").write_text("".join(rows))
    (tmp_path / "r.yaml").write_text(
        'name: rolls\nseparator: ","\ncolumns: [click, at, a, u]\nlabel: {column: click}\nprotocol: rolling\nnegatives: 0.5\n'
        f"dense: [{{columns: [a]}}]\nsparse: [{{columns: [u]}}]\ntime: {time}\n"
    )
    options = PrepareOptions(origin=2, window=0.15)
    made = [
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / engine, options, engine=engine)
        for engine in ("local", "spark")
    ]
    assert same(*made)
    assert made[0].manifest["later"] > 100


@needs_java
def test_pretrained_vectors(spark, tmp_path: Path):
    from tests.unit.data.prepare.vector_logs import RECIPE, log_of

    log_of(tmp_path, 300)
    (tmp_path / "r.yaml").write_text(RECIPE)
    made = [
        prepare(str(tmp_path / "r.yaml"), [tmp_path / "log.csv"], tmp_path / engine, engine=engine)
        for engine in ("local", "spark")
    ]
    assert same(*made)
    assert made[1].vectors["item"]["found"] == 8
