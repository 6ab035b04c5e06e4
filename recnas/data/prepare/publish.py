"""The end of `prepare`: exchange files, checksums, fingerprint and manifest, then everything into place.

The manifest is written last and atomically. A folder that has one is whole; one that has not is
unfinished, and the same command continues it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from recnas.data.array_files import read_blocks
from recnas.data.bags import rows_at_a_time, unpadded
from recnas.data.prepare.arrayfile import ArrayFile
from recnas.data.prepare.chunks import bad_lines, count_rejects
from recnas.data.prepare.encode import array_files
from recnas.data.prepare.split import SPLITS
from recnas.data.prepare.vocab_files import vocabulary_digest
from recnas.data.prepared import FORMAT, MANIFEST, vocabulary_id
from recnas.data.quality import Block, data_warnings, repeated_share
from recnas.data.raw.dense import DenseSummary
from recnas.data.raw.remote import RemotePath
from recnas.data.raw.sources import Source
from recnas.data.remembered import remember
from recnas.data.schema import Schema
from recnas.files import fsync_file, fsync_folder, sha256_file, write_json
from recnas.progress import Progress
from recnas.runs.checks import with_check
from recnas.runs.folder import versions

_PARQUET_ROWS = 65_536


class Finisher:
    """Turns the encoded arrays under `work/done` into a prepared folder."""

    def __init__(
        self,
        out: Path,
        work: Path,
        schema: Schema,
        summaries: list[DenseSummary],
        weighted: bool,
        threads: int,
        progress: Progress,
    ) -> None:
        self.out, self.done, self.work = out, work / "done", work
        self.schema, self.summaries = schema, summaries
        self.weighted, self.threads, self.progress = weighted, threads, progress

    def run(
        self,
        plan: dict[str, Any],
        facts: dict[str, Any],
        entries: list[dict[str, Any]],
        sources: list[Source],
        parquet: bool,
        expected_rows: int | None,
    ) -> None:
        rows = np.sum([entry["rows"] for entry in entries], axis=0).tolist()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="finish") as pool:
            self.progress.phase("finish", None, "files")
            # The large source first: it takes longest and needs one thread only.
            source_digests = [pool.submit(_digest, source) for source in sources]
            exchange = [
                pool.submit(self._write_parquet, split, count)
                for split, count in zip(SPLITS, rows)
                if parquet and count
            ]
            repeated = pool.submit(self._repeated, rows)
            vocabulary = {
                field.name: pool.submit(vocabulary_digest, self.done / "vocab" / f"{field.name}.parquet")
                for field in self.schema.sparse
                if field.table == field.name
                and (self.done / "vocab" / f"{field.name}.parquet").exists()  # not of hashes and buckets
            }
            checks = {name: pool.submit(sha256_file, self.done / name) for name in self._array_files()}
            for future in exchange:
                future.result()
                self.progress.advance(1)
            write_json(self.done / "schema.json", self.schema.to_dict())
            names = sorted(str(file.relative_to(self.done)) for file in self.done.rglob("*") if file.is_file())
            others = {name: pool.submit(sha256_file, self.done / name) for name in names if name not in checks}
            checksums = {name: future.result() for name, future in sorted({**checks, **others}.items())}
            source_sums = [future.result() for future in source_digests]
        counts = self._summary(entries, rows) | self._weights(rows)
        warnings = data_warnings(self.schema, self.summaries, facts | counts, repeated.result(), expected_rows)
        digests = {name: future.result() for name, future in vocabulary.items()}
        manifest = {
            "format": FORMAT,
            "fingerprint": self._fingerprint(checksums, digests, list(facts.get("vectors", {}))),
            "vocabulary": vocabulary_id(self.schema, digests),
            **facts,
            **counts,
            "warnings": [warning.to_dict() for warning in warnings],
            "options": plan,
            "sources": [
                {**source.identity(), "path": str(source.path.resolve()), "sha256": digest}
                for source, digest in zip(sources, source_sums)
            ],
            "checksums": checksums,
            "versions": versions(),
        }
        for item in sorted(self.done.iterdir()):
            target = self.out / item.name
            if target.is_dir():  # an earlier attempt was stopped between these moves
                shutil.rmtree(target)
            os.replace(item, target)
        # A manifest that survives a power cut must find all the rest: arrays are on the disk since they were closed.
        for name in checksums:
            fsync_file(self.out / name)
        for folder in sorted({(self.out / name).parent for name in checksums}):
            fsync_folder(folder)
        remember(self.out, checksums)
        write_json(self.out / MANIFEST, with_check(manifest))
        shutil.rmtree(self.work)
        self.progress.end()

    def _array_files(self) -> list[str]:
        return [f"{split}/{name}" for split in SPLITS for name in array_files(self.schema, self.weighted).values()]

    @property
    def _block_rows(self) -> int:
        return rows_at_a_time(_PARQUET_ROWS, self.schema)

    def _fingerprint(self, checksums: dict[str, str], vocabulary: dict[str, str], vectors: list[str]) -> str:
        """Of what a model sees: the arrays, the schema, the values behind the ids, and vectors that are given. (The directions
        follow from these, up to rounding.)"""
        content = {
            "schema": self.schema.to_dict(),
            "vocabulary": vocabulary,
            "arrays": {name: checksums[name] for name in self._array_files()},
            **({"vectors": {name: checksums[f"vectors/{name}.f32"] for name in vectors}} if vectors else {}),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _summary(self, entries: list[dict[str, Any]], rows: list[int]) -> dict[str, Any]:
        def total(split: int, what: str) -> list[int]:
            return np.sum([entry["splits"][split][what] for entry in entries], axis=0).tolist()

        names = [column.name for column in self.schema.sparse]
        clicks = [sum(entry["splits"][s]["clicks"] for entry in entries) for s in range(len(SPLITS))]
        rates = [
            [n / count for n in total(s, "clicks_of")] if count and self.schema.labels else []
            for s, count in enumerate(rows)
        ]
        return {
            "rows": dict(zip(SPLITS, rows)),
            "click_rate": {split: (clicks[s] / rows[s] if rows[s] else None) for s, split in enumerate(SPLITS)},
            **self._label_rates(rates),
            "dense": {field.name: asdict(s) for field, s in zip(self.schema.dense, self.summaries)},
            "cardinality": {column.name: column.rows for column in self.schema.sparse},
            "unknown": {split: dict(zip(names, total(s, "unknown"))) for s, split in enumerate(SPLITS)},
            "missing": {split: dict(zip(names, total(s, "missing"))) for s, split in enumerate(SPLITS)},
            **({"bags": self._bag_facts(entries)} if self.schema.bags else {}),
        }

    def _bag_facts(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        """Of every split and bag: values, unknown ones, those cut off and the rows they were cut off, rows without any."""
        return {
            split: {
                name: {
                    what: sum(entry["splits"][s]["bags"][name][what] for entry in entries)
                    for what in ("values", "unknown", "cut", "cut_rows", "empty_rows")
                }
                for name in self.schema.bag_names
            }
            for s, split in enumerate(SPLITS)
        }

    def _label_rates(self, rates: list[list[float]]) -> dict[str, Any]:
        """By label and split, where there are several; `click_rate` is that of the first."""
        if not self.schema.labels:
            return {}
        return {
            "label_rates": {
                label.name: {split: rates[s][place] if rates[s] else None for s, split in enumerate(SPLITS)}
                for place, label in enumerate(self.schema.labels)
            }
        }

    def _weights(self, rows: list[int]) -> dict[str, Any]:
        """Sums of weights, and click rates that count them; nothing where rows have none.

        Summed over blocks of fixed size: the same to the last digit whatever the chunks of this preparation.
        """
        if not self.weighted:
            return {}
        sums = {}
        for split, count in zip(SPLITS, rows):
            total = squares = 0.0
            clicked = np.zeros(self.schema.n_labels)
            names = ("weight", "label")
            for weight, label in zip(
                *(read_blocks(self.done, split, name, count, self.schema, _PARQUET_ROWS) for name in names)
            ):
                total += float(weight.sum(dtype=np.float64))
                for place, column in enumerate(label.reshape(len(weight), -1).T):
                    clicked[place] += float(np.where(column == 1, weight, 0).sum(dtype=np.float64))
                squares += float(np.square(weight, dtype=np.float64).sum())
            sums[split] = total, clicked, squares
        rates_of = {s: [float(c) / total for c in clicked] if total else [] for s, (total, clicked, _) in sums.items()}
        return {
            "weight": {split: total for split, (total, _, _) in sums.items()},
            # How many rows of one weight would tell a mean as well (Kish).
            "effective_rows": {
                split: total**2 / squares if squares else 0.0 for split, (total, _, squares) in sums.items()
            },
            "click_rate": {split: rates[0] if rates else None for split, rates in rates_of.items()},
            **self._label_rates(list(rates_of.values())),
        }

    def _repeated(self, rows: list[int]) -> float:
        counts = dict(zip(SPLITS, rows))

        def blocks(split: str) -> Iterator[Block]:
            arrays = (
                read_blocks(self.done, split, name, counts[split], self.schema, self._block_rows)
                for name in ("dense", "ids", "label")
            )
            yield from zip(*arrays)

        return repeated_share(blocks("test"), blocks("train"), counts["test"])

    def _write_parquet(self, split: str, rows: int) -> None:
        inputs = [*(column.name for column in self.schema.dense), *(column.name for column in self.schema.sparse)]
        # A column that is the weight and an input occurs twice, the second time as models are given it.
        weight = [("row_weight" if "weight" in inputs else "weight", pa.float32())] if self.weighted else []
        labels = [f"label_{label.name}" for label in self.schema.labels] or ["label"]
        fields = [*((name, pa.int8()) for name in labels), *weight]
        fields += [(column.name, pa.float32()) for column in self.schema.dense]
        fields += [(column.name, pa.list_(pa.int32()) if column.bag else pa.int32()) for column in self.schema.sparse]
        schema = pa.schema(fields)
        # Read, not mapped: the pages of a map would count as this process's memory.
        arrays = ("label", "dense", "ids", *(("weight",) if weight else ()))
        blocks = [read_blocks(self.done, split, name, rows, self.schema, self._block_rows) for name in arrays]
        with pq.ParquetWriter(
            self.done / f"{split}.parquet",
            schema,
            compression="lz4",
            use_dictionary=False,
            write_statistics=False,
        ) as writer:
            for label, dense, ids, *weights in zip(*blocks):
                single = ids[:, : self.schema.n_single]
                columns = [
                    *np.ascontiguousarray(label.reshape(len(ids), -1).T),
                    *weights,
                    *np.ascontiguousarray(dense.T),
                    *np.ascontiguousarray(single.T),
                ]
                arrays_of = [pa.array(column) for column in columns]
                for number in range(self.schema.n_single, self.schema.n_sparse):
                    arrays_of.append(_lists(ids[:, self.schema.id_columns(number)]))
                writer.write_table(pa.Table.from_arrays(arrays_of, schema=schema))


def _lists(places: np.ndarray) -> pa.Array:
    """The values of a bag, of places in a batch."""
    values, counts = unpadded(places)
    return pa.ListArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32()), pa.array(values))


def _digest(source: Source) -> str | None:
    """None for a remote file, which is not fetched once more for it: its version is in its identity."""
    return None if isinstance(source.path, RemotePath) else sha256_file(source.path)


def write_rejects(folder: Path, sources: list[Source], chunks: list[ArrayFile], header: bool, rows_in: int) -> None:
    """`rejects.tsv`: rows that were left out, where they stood, and why; where very many follow each other, the first ones."""
    lines_before: dict[int, int] = {}
    seen = 0
    with open(folder / "rejects.tsv", "w", encoding="utf-8") as out:
        out.write("file\tline\tcolumn\treason\ttext\n")
        for chunk in chunks:
            file = int(chunk.path.name.split("-")[0])
            before = lines_before.get(file, 0) + (1 if header else 0)
            lines = min(chunk.facts["lines"], rows_in - seen)
            listed = [fault for fault in bad_lines(chunk) if fault.line < lines]
            for fault in listed:
                text = fault.text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
                number = before + fault.line + 1
                out.write(f"{sources[file].path.name}\t{number}\t{fault.column}\t{fault.reason}\t{text}\n")
            if (more := count_rejects(chunk, lines) - len(listed)) > 0:
                place = f"{before + 1}-{before + lines}"
                out.write(f"{sources[file].path.name}\t{place}\t\tand {more} more rows of these lines\t\n")
            lines_before[file] = lines_before.get(file, 0) + chunk.facts["lines"]
            seen += chunk.facts["lines"]
