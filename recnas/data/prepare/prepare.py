"""Prepare a raw ad log for training: parse, split, count, encode, and describe the result.

    raw blocks -> chunk files -> split of every row -> vocabulary of the training rows -> arrays per split

Memory is bounded by `memory` whatever the size of the file: blocks are fixed, vocabularies are counted
column by column, arrays are written in place. Every stage leaves finished pieces behind, so the same
command after a crash continues and ends with the same fingerprint.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

from recnas.data.prepare.first_day import FirstDay
from recnas.data.prepare.folder import check_folder, leaving_no_empty_folder
from recnas.data.prepare.options import PrepareOptions
from recnas.data.prepare.spark.session import check_engine
from recnas.data.prepare.split import check_protocol
from recnas.data.prepare.stages import Preparation
from recnas.data.prepare.vectors import check_same_file, identity, read_vectors
from recnas.data.prepared import PreparedData, prepared_options
from recnas.data.raw.recipe import Recipe, load_recipe
from recnas.data.raw.sources import STDIN, Raw, ReadySplit, raw_paths, raw_sources, read_stdin
from recnas.errors import ConfigError, DataError
from recnas.progress import Progress, human_bytes
from recnas.runs.folder import FolderLock


def prepare(
    recipe_name: str | None,
    raw: Raw,
    out: Path | str,
    options: PrepareOptions | None = None,
    *,
    memory: int = 2 << 30,
    threads: int | None = None,
    progress: Progress | None = None,
    engine: str = "local",
    spark_master: str | None = None,
) -> PreparedData:
    """Prepare raw files into the folder `out`, or continue there, or return what is already done.

    Args:
        recipe_name: None with `options.like` or `options.extend`: theirs.
        raw: files and folders, or a `ReadySplit` of them, which stands for the protocol `files`.
        engine: "local", threads of this process, or "spark"; the result is the same.
        spark_master: of the cluster; None is this machine, or what spark-submit was given.
    """
    check_engine(engine, spark_master, raw_paths(raw))
    ready = isinstance(raw, ReadySplit)
    options = options or PrepareOptions()
    base = FirstDay.of(options)
    recipe = _recipe(recipe_name, base)
    if base is not None:
        options = base.options(options)
    protocol = options.protocol or ("files" if ready else recipe.protocol)
    options.check(recipe, protocol, ready)
    check_protocol(protocol, recipe, Path(options.split_index) if options.split_index else None, ready)
    if memory < 256 << 20:
        raise ConfigError(f"--memory must be at least 256MB (got {human_bytes(memory)}).")
    out = Path(out)
    sources = [] if raw == [STDIN] else raw_sources(raw)
    check_folder(out)
    with leaving_no_empty_folder(out), FolderLock(out):
        sources = sources or [read_stdin(out / ".stdin", sys.stdin.buffer)]
        plan = prepared_options(recipe, options, protocol, sources)
        vectors = read_vectors(recipe, sources[0].path.parent, options.side, options.with_columns)
        plan |= identity(vectors)
        if base is not None:
            plan |= base.facts()
            check_same_file(vectors, base.data)
        if protocol != "group":
            recipe = recipe.model_copy(update={"group": None})  # nothing to read then
        finished = PreparedData.find(out)
        if finished is not None:
            shutil.rmtree(out / ".stdin", ignore_errors=True)
            finished.check_options(plan)
            shutil.rmtree(out / ".work", ignore_errors=True)  # of a kill between the manifest and the end
            return finished
        threads = threads or os.cpu_count() or 1
        progress = progress or Progress(quiet=True)
        given = (recipe, options, protocol, sources, out, plan, memory, threads, progress, base, vectors)
        if engine == "spark":
            from recnas.data.prepare.spark.prepare import SparkPreparation

            job: Preparation = SparkPreparation(*given, master=spark_master)
        else:
            job = Preparation(*given)
        try:
            data = job.run()
            shutil.rmtree(out / ".stdin", ignore_errors=True)
            return data
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise DataError(
                    f"The disk that holds {out} is full.",
                    "Free some space and run the same command again: finished pieces are kept.",
                ) from None
            raise


def recipe_of(name: str | None, options: PrepareOptions) -> Recipe:
    """What a preparation goes by."""
    return _recipe(name, FirstDay.of(options))


def _recipe(name: str | None, base: FirstDay | None) -> Recipe:
    if base is not None and name is not None:
        raise ConfigError(
            f"The recipe is that of {base.data.path}, so {name} cannot be given too.",
            "Leave the recipe out: recnas prepare --like DIR --raw FILE --out DIR2",
        )
    if base is not None:
        return base.recipe()
    if name is None:
        raise ConfigError(
            "There is no recipe: what the raw files are is not known.",
            "Name one: recnas prepare RECIPE --raw FILE --out DIR. Or encode as other data were: --like DIR",
        )
    return load_recipe(name)
