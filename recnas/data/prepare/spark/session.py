"""Getting at Spark: start it here or join a cluster, quietly, and say in a sentence why it fails.

Nothing here imports pyspark before it is needed.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recnas.errors import BackendMissing, ConfigError, DataError, RecnasError, RunError

CONNECT_SECONDS = 10.0  # for the port of a master to answer
EXECUTOR_SECONDS = 180.0  # for the first task to come back: a queue may have to find room
TASK_TRIES = 4
_ADDRESS = r"\[?[^/,\[\]\s]+?\]?:\d{1,5}"


def check_engine(engine: str, master: str | None, raw: list[Path | str]) -> None:
    """Faults of `--engine`, `--spark-master` and `--raw` that can be known before anything is started."""
    if engine not in ("local", "spark"):
        raise ConfigError(f"There is no engine {engine!r} for prepare.", "Choose one of: local, spark")
    if master is not None and engine != "spark":
        raise ConfigError("--spark-master goes with --engine spark.")
    remote = [str(path) for path in raw if "://" in str(path)]
    if remote and engine == "spark":
        raise DataError(
            f"{remote[0]} is not a path: with --engine spark raw files are read through the filesystem.",
            "Mount it on every machine under the same path, copy it to a shared filesystem, or leave --engine spark out.",
        )


@contextmanager
def spark_session(master: str | None, threads: int, memory: int, text_bytes: int) -> Iterator[Any]:
    """A Spark session; one that this process already has is used and left as it is.

    Args:
        master: None is `local[threads]`, or what spark-submit was given.
        memory: for the driver's Java heap, at least 1 GB.
        text_bytes: size of the raw data, from which the number of shuffle partitions follows.
    """
    builder = _pyspark_sql().SparkSession.builder
    running = _pyspark_sql().SparkSession.getActiveSession()
    if running is not None:
        with _explained(None):
            yield running
        return
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        _check_java()
    if master is not None or not submitted:
        master = check_master(master or f"local[{threads}]")
        builder = builder.master(master)
    # Workers would otherwise run the first `python3` of their PATH, which has no recnas.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.app.name": "recnas prepare",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.driver.memory": f"{max(1 << 30, memory) >> 20}m",
        "spark.sql.shuffle.partitions": str(max(2 * threads, text_bytes >> 27)),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    handle, log = tempfile.mkstemp(prefix="recnas-spark-", suffix=".log")
    try:
        with _explained(Path(log)):
            with _stderr_to(handle):  # the Java process keeps this for its life: its chatter goes to the log
                session = builder.getOrCreate()
            session.sparkContext.setLogLevel("ERROR")
            try:
                yield session
            finally:
                session.stop()
        os.unlink(log)
    finally:
        os.close(handle)


def _pyspark_sql() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("pyspark.sql")
    except ImportError as error:
        raise BackendMissing(
            f"--engine spark needs the package pyspark, which does not load here ({error}).",
            "pip install 'recnas[spark]', or leave out --engine spark.",
        ) from None


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the PATH"
        raise BackendMissing(
            f"Spark needs Java 17 or newer: {where}.",
            "Install it (apt install openjdk-17-jre-headless), or set JAVA_HOME, or leave out --engine spark.",
        )


def check_master(master: str) -> str:
    """The master as Spark wants it; a wrong one is told within seconds instead of a minute."""
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if local:
        # Without the second number Spark on one machine gives up at the first task that dies.
        return f"local[{local[1] or 1},{TASK_TRIES}]"
    if master == "yarn" or master.startswith("k8s://"):
        return master
    if not re.fullmatch(rf"spark://{_ADDRESS}(?:,{_ADDRESS})*", master):
        raise ConfigError(
            f"--spark-master {master!r} is not a master.",
            "Write local[4], spark://HOST:7077, yarn or k8s://https://HOST:PORT",
        )
    failures = []
    for address in master.removeprefix("spark://").split(","):
        host, port = address.rsplit(":", 1)
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
            return master
        except (OSError, OverflowError) as error:
            failures.append(f"{address}: {error}")
    raise RunError(
        f"There is no Spark master at {master} ({'; '.join(failures)}).",
        "Start it with start-master.sh and give the address its log prints, or use this machine: --spark-master local[4]",
    )


@contextmanager
def _stderr_to(handle: int) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(handle, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas 3 is newer than this pyspark knows; we use none of it
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _explained(log: Path | None) -> Iterator[None]:
    """Turn what Spark throws into a sentence, with the log for those who want all of it."""
    try:
        yield
    except (RecnasError, OSError, KeyboardInterrupt):
        _forget(log)
        raise
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("py4j", "pyspark"):
            _forget(log)
            raise
        text = _reason(str(error))
        more = f" Everything it said: {log}" if log and log.stat().st_size else ""
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise BackendMissing(
                "Spark's Java process ended while it was starting.", f"It needs Java 17 or newer: java -version.{more}"
            ) from None
        raise RunError(
            f"Spark gave up: {text}", f"Run the same command again: finished pieces are kept.{more}"
        ) from None


def _forget(log: Path | None) -> None:
    if log is not None:
        with suppress(OSError):
            log.unlink()


def _reason(text: str) -> str:
    """The line of a Java or Python trace that says what happened: the last one that names an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(Caused by: )?[\w.]+(Error|Exception)\b", line)]
    return (([line for line in named if "py4j" not in line] or lines or ["no reason given"])[-1])[:300]


def first_task(session: Any, task: Any, seconds: float | None = None) -> Any:
    """Run one task and return its result; an error if no executor takes it in time."""
    context = session.sparkContext
    wait = EXECUTOR_SECONDS if seconds is None else seconds
    gave_up = threading.Event()

    def cancel() -> None:
        gave_up.set()
        context.cancelAllJobs()

    timer = threading.Timer(wait, cancel)
    timer.start()
    try:
        return context.parallelize([0], 1).map(task).collect()[0]
    except Exception:
        if gave_up.is_set():
            raise RunError(
                f"No Spark executor took a task within {wait:.0f} seconds.",
                "Are workers connected to the master, and is there room? See its page, or its queue.",
            ) from None
        raise
    finally:
        timer.cancel()
