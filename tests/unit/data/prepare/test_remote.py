"""Raw files by address: the same data as from the disk, read in pieces, and errors that say what to do."""

from __future__ import annotations

import builtins
import gzip
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from recnas.cli.main import main
from recnas.data.guess.recipe import guess_recipe
from recnas.data.prepare.chunks import ChunkWriter
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.prepare import prepare
from recnas.data.raw import remote
from recnas.data.raw.remote import RemotePath, as_path
from recnas.data.raw.sources import ReadySplit, find_sources
from recnas.errors import BackendMissing, ConfigError, DataError
from tests.unit.data.prepare.vector_logs import RECIPE as VECTORS
from tests.unit.data.prepare.vector_logs import log_of

fsspec = pytest.importorskip("fsspec")
SMALL = 256 << 20  # of memory, for which blocks are 1.3 MB

RECIPE = """
name: remote
separator: ","
header: true
label: {column: click}
dense: [{columns: [price], transform: none}]
sparse: [{columns: [user, item]}]
"""


@pytest.fixture
def store():
    """The bytes of a process's memory:// by name; empty at the start."""
    remote._filesystem.cache_clear()
    fs = fsspec.filesystem("memory", use_listings_cache=False)
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    yield fs
    fs.store.clear()


def rows_of(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 9, rows), rng.integers(0, 7, rows)
    click = rng.random(rows) < 0.3
    table = {"click": click.astype(int), "price": rng.normal(size=rows).round(3)}
    return pd.DataFrame({**table, "user": [f"u{n}" for n in user], "item": [f"i{n}" for n in item]})


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    (tmp_path / "r.yaml").write_text(RECIPE)
    return str(tmp_path / "r.yaml")


def put(store, folder: Path, name: str, content: bytes) -> None:
    """The same file on the disk and in the store."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    store.pipe(f"memory://logs/{name}", content)


def compressed(content: bytes, kind: str) -> bytes:
    if kind == "gz":
        return gzip.compress(content)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(content)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "csv.zst", "parquet"])
@pytest.mark.parametrize("how", ["file", "folder", "pattern"])
def test_the_same_data_as_from_the_disk(store, tmp_path: Path, recipe, kind, how):
    for number in (1, 2):
        rows = rows_of(300, number)
        if kind == "parquet":
            rows.to_parquet(tmp_path / "one.parquet", index=False)
            content = (tmp_path / "one.parquet").read_bytes()
        else:
            content = rows.to_csv(index=False).encode()
            content = content if kind == "csv" else compressed(content, kind.rpartition(".")[2])
        put(store, tmp_path / "disk", f"day{number}.{kind}", content)
    put(store, tmp_path / "disk", "_SUCCESS", b"x")
    if kind == "parquet":
        Path(recipe).write_text(RECIPE.replace("header: true", "format: parquet").replace('separator: ","', ""))
    here = tmp_path / "disk"
    named = {
        "file": ([f"memory://logs/day{n}.{kind}" for n in (1, 2)], [here / f"day{n}.{kind}" for n in (1, 2)]),
        "folder": (["memory://logs/"], [here]),
        "pattern": ([f"memory://logs/day*.{kind}"], [f"{here}/day*.{kind}"]),
    }
    there, local = (prepare(recipe, raw, tmp_path / name) for name, raw in zip(("there", "local"), named[how]))
    assert there.fingerprint == local.fingerprint
    for source, content in zip(there.manifest["sources"], sorted(n for n in store.store if "day" in n)):
        if how == "file":
            assert source["path"] == f"memory:/{content}"
        assert source["sha256"] is None
        assert source["version"]
    # Nothing of the raw files has come to the disk.
    assert not [file for file in (tmp_path / "there").rglob("*") if file.name.startswith("day")]


def test_folders_with_partitions(store, tmp_path: Path, recipe):
    text = RECIPE.replace("[user, item]", "[user, item, dt]") + "partitions: [dt]\n"
    Path(recipe).write_text(text)
    for day in ("2024-03-02", "2024-03-01"):
        put(store, tmp_path / "disk", f"dt={day}/part-0.csv", rows_of(200, int(day[-1])).to_csv(index=False).encode())
    there = prepare(recipe, ["memory://logs"], tmp_path / "there")
    local = prepare(recipe, [tmp_path / "disk"], tmp_path / "local")
    assert there.fingerprint == local.fingerprint
    assert there.manifest["cardinality"]["dt"] == 4
    store.pipe("memory://logs/other/part-0.csv", b"click,price,user,item\n1,1,a,b\n")
    with pytest.raises(DataError, match="lies in no folder dt=") as error:
        prepare(recipe, ["memory://logs/dt=2024-03-01", "memory://logs/other/part-0.csv"], tmp_path / "e")
    assert "leave the file out" in error.value.fix


@pytest.mark.parametrize("kind", ["csv", "csv.gz"])
def test_files_are_read_in_pieces(store, tmp_path: Path, recipe, kind, monkeypatch):
    content = rows_of(30_000).to_csv(index=False).encode() * 1
    head, _, body = content.partition(b"\n")
    content = head + b"\n" + body * 7  # 7 MB
    assert len(content) > 2 * (SMALL // 200)  # three blocks
    store.pipe(f"memory://logs/log.{kind}", content if kind == "csv" else gzip.compress(content, 1))
    sizes: list[int] = []
    read = remote._Reading.read

    def counted(self, size=-1):
        found = read(self, size)
        sizes.append(len(found) if size >= 0 else 1 << 40)
        return found

    def never(*_, **__):
        raise AssertionError("a whole file was fetched")

    monkeypatch.setattr(remote._Reading, "read", counted)
    for name in ("get", "get_file", "cat", "cat_file", "download"):
        monkeypatch.setattr(type(store), name, never)
    data = prepare(recipe, [f"memory://logs/log.{kind}"], tmp_path / "d", memory=SMALL, threads=2)
    assert data.manifest["rows_in"] == 210_000
    assert max(sizes) < 3 << 20
    monkeypatch.undo()
    (tmp_path / "log.csv").write_bytes(content)
    assert prepare(recipe, [tmp_path / "log.csv"], tmp_path / "l", memory=SMALL).fingerprint == data.fingerprint


def test_a_killed_preparation_reads_only_what_is_missing(store, tmp_path: Path, recipe, monkeypatch):
    head, _, body = rows_of(30_000).to_csv(index=False).encode().partition(b"\n")
    content = head + b"\n" + body * 7
    store.pipe("memory://logs/log.csv", content)
    whole = prepare(recipe, ["memory://logs/log.csv"], tmp_path / "whole", memory=SMALL)
    real = ChunkWriter.text_block

    def dies(self, file, block, text):
        if block == 2:
            raise KeyboardInterrupt
        return real(self, file, block, text)

    monkeypatch.setattr(ChunkWriter, "text_block", dies)
    with pytest.raises(KeyboardInterrupt):
        prepare(recipe, ["memory://logs/log.csv"], tmp_path / "cut", memory=SMALL, threads=1)
    blocks: list[int] = []

    def seen(self, file, block, text):
        blocks.append(block)
        return real(self, file, block, text)

    monkeypatch.setattr(ChunkWriter, "text_block", seen)
    assert prepare(recipe, ["memory://logs/log.csv"], tmp_path / "cut", memory=SMALL).fingerprint == whole.fingerprint
    assert 0 not in blocks
    assert 2 in blocks
    monkeypatch.undo()
    store.pipe("memory://logs/log.csv", content)  # the same bytes, written again: another version
    with pytest.raises(DataError, match="written to since"):
        prepare(recipe, ["memory://logs/log.csv"], tmp_path / "cut")


def test_a_ready_split_side_files_and_vectors(store, tmp_path: Path, recipe):
    for name, seed in (("train", 1), ("valid", 2), ("test", 3)):
        store.pipe(f"memory://logs/{name}.csv", rows_of(200, seed).to_csv(index=False).encode())
    ready = ReadySplit(*([f"memory://logs/{name}.csv"] for name in ("train", "valid", "test")))
    assert [prepare(recipe, ready, tmp_path / "d").rows(split) for split in ("train", "valid", "test")] == [200] * 3
    log_of(tmp_path / ".", 300)
    for name in ("log.csv", "items.parquet"):
        store.pipe(f"memory://v/{name}", (tmp_path / name).read_bytes())
    (tmp_path / "v.yaml").write_text(VECTORS)
    there = prepare(str(tmp_path / "v.yaml"), ["memory://v/log.csv"], tmp_path / "there")
    local = prepare(str(tmp_path / "v.yaml"), [tmp_path / "log.csv"], tmp_path / "local")
    assert there.fingerprint == local.fingerprint
    (tmp_path / "j.yaml").write_text(
        RECIPE.replace("[user, item]", "[user, item, city]") + "joins: [{file: users.csv, key: user, add: [city]}]\n"
    )
    store.pipe("memory://logs/users.csv", "".join(["user,city\n", *(f"u{n},c{n % 3}\n" for n in range(9))]).encode())
    joined = prepare(str(tmp_path / "j.yaml"), ["memory://logs/train.csv"], tmp_path / "j")
    assert joined.manifest["cardinality"]["city"] == 2 + 3


def test_addresses():
    assert as_path("s3://bucket/a/b.csv") == RemotePath("s3", "bucket/a/b.csv")
    assert as_path(Path("s3://bucket/a/b.csv")) == RemotePath(
        "s3", "bucket/a/b.csv"
    )  # a slash is lost, the meaning is not
    assert str(as_path("hf://datasets/me/logs/")) == "hf://datasets/me/logs"
    assert as_path("logs/a.csv") == Path("logs/a.csv")
    assert as_path("C:/logs") == Path("C:/logs")
    assert (as_path("gs://b/dt=1/a.csv.gz").suffix, as_path("gs://b/x/a.csv").parent.name) == (".gz", "x")
    with pytest.raises(ConfigError, match="files are not read by ftp://") as error:
        as_path("ftp://host/a.csv")
    assert "s3://" in error.value.fix


def test_what_is_not_there(store, tmp_path: Path, recipe):
    store.pipe("memory://logs/empty.csv", b"")
    store.pipe("memory://logs/a.csv", b"click,price,user,item\n1,1,a,b\n")
    for raw, said in (
        ("memory://logs/no.csv", "There is no file memory://logs/no.csv"),
        ("memory://logs/*.tsv", "No file matches memory://logs/"),
        ("memory://logs/empty.csv", "memory://logs/empty.csv is empty"),
    ):
        with pytest.raises(DataError, match=said.replace("*", r"\*")):
            prepare(recipe, [raw], tmp_path / "d")
    assert [str(source.path) for source in find_sources(["memory://logs/a.csv"])] == ["memory://logs/a.csv"]
    with pytest.raises(DataError, match="with --engine spark raw files are read through the filesystem"):
        prepare(recipe, ["memory://logs/a.csv"], tmp_path / "d", engine="spark")
    store.pipe("memory://logs/cut.csv.gz", gzip.compress(b"click,price,user,item\n1,1,a,b\n" * 9)[:-9])
    with pytest.raises(DataError, match=r"memory://logs/cut.csv.gz cannot be decompressed"):
        prepare(recipe, ["memory://logs/cut.csv.gz"], tmp_path / "d")


def test_a_store_that_fails_names_the_address(store, tmp_path: Path, recipe, monkeypatch):
    store.pipe("memory://logs/a.csv", rows_of(50).to_csv(index=False).encode())

    class Refuses(Exception):
        pass

    def fails(*_, **__):
        raise Refuses("Forbidden: no such key for you\nmore lines")

    monkeypatch.setattr(type(store), "_open", fails)
    with pytest.raises(
        DataError, match=r"memory://logs/a.csv cannot be read: Forbidden: no such key for you\."
    ) as error:
        prepare(recipe, ["memory://logs/a.csv"], tmp_path / "d")
    assert "access keys" in error.value.fix


def test_without_the_extra_one_sentence_names_it(monkeypatch, tmp_path: Path, recipe, capsys):
    remote._filesystem.cache_clear()
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "fsspec" or name.startswith("fsspec."):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "fsspec", raising=False)
    with pytest.raises(BackendMissing, match="s3:// needs fsspec and s3fs, not installed here") as error:
        find_sources(["s3://bucket/log.csv"])
    assert error.value.fix == "pip install 'recnas[remote]'"
    assert main(["prepare", recipe, "--raw", "s3://bucket/log.csv", "--out", str(tmp_path / "d")]) == 2
    assert "pip install 'recnas[remote]'" in capsys.readouterr().err


def test_a_recipe_is_proposed_for_a_remote_file(store, tmp_path: Path):
    store.pipe("memory://logs/a.csv", rows_of(200).to_csv(index=False).encode())
    text = guess_recipe("memory://logs/a.csv")
    assert "--raw memory://logs/a.csv" in text
    (tmp_path / "mine.yaml").write_text(text)
    assert prepare(str(tmp_path / "mine.yaml"), ["memory://logs/a.csv"], tmp_path / "d").manifest["rows_in"] == 200


@pytest.mark.spawns
def test_s3_by_its_own_protocol(tmp_path: Path, recipe, monkeypatch):
    """Against a server of moto on this machine; skipped where s3fs and moto are not installed."""
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install 'recnas[remote]' 'moto[server]'")
    moto = pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    import boto3

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in (
            ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
            ("AWS_ACCESS_KEY_ID", "none"),
            ("AWS_SECRET_ACCESS_KEY", "none"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ):
            monkeypatch.setenv(name, value)
        client = boto3.client("s3")
        client.create_bucket(Bucket="logs")
        text = RECIPE.replace("[user, item]", "[user, item, dt]") + "partitions: [dt]\n"
        Path(recipe).write_text(text)
        for day in (1, 2):
            content = rows_of(3000, day).to_csv(index=False).encode()
            client.put_object(Bucket="logs", Key=f"a/dt=2024-03-0{day}/part-0.csv", Body=content)
            (tmp_path / f"disk/dt=2024-03-0{day}").mkdir(parents=True)
            (tmp_path / f"disk/dt=2024-03-0{day}/part-0.csv").write_bytes(content)
        remote._filesystem.cache_clear()
        there = prepare(recipe, ["s3://logs/a"], tmp_path / "there", PrepareOptions(seed=1))
        assert (
            there.fingerprint
            == prepare(recipe, [tmp_path / "disk"], tmp_path / "local", PrepareOptions(seed=1)).fingerprint
        )
        assert (
            prepare(recipe, ["s3://logs/a/*/part-*.csv"], tmp_path / "glob", PrepareOptions(seed=1)).fingerprint
            == there.fingerprint
        )
        with pytest.raises(DataError, match=r"There is no file s3://logs/b\.csv"):
            prepare(recipe, ["s3://logs/b.csv"], tmp_path / "no")
        with pytest.raises(DataError, match="s3://nothing"):
            prepare(recipe, ["s3://nothing/b.csv"], tmp_path / "no")
    finally:
        server.stop()
        remote._filesystem.cache_clear()
