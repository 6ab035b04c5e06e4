"""A prepared data set on disk: open it, check it, describe it.

manifest.json   fingerprint, options, counts, checksums; present only when everything else is
schema.json     the model inputs
vocab/          one Parquet file per sparse column
train|valid|test/   dense.f32 [N, I], ids.i32 [N, F], label.i8 [N] (of several labels [N, L]), row-major,
                    memory-mapped; where rows have weights also weight.f32 [N]; of every bag NAME.values.i32 and
                    NAME.ends.i64 (see `bags`), while ids are those of fields with one value
train|valid|test.parquet   the same rows for other tools
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recnas.data.array_files import FILES, open_array, open_bag
from recnas.data.bags import BagArray, PaddedIds, bag_files
from recnas.data.quality import DataWarning
from recnas.data.remembered import check_files
from recnas.data.schema import Schema
from recnas.errors import DataError
from recnas.files import read_json, sha256_file
from recnas.runs.checks import has_check
from recnas.runs.identity import differences

if TYPE_CHECKING:
    from recnas.data.batch import Batch
    from recnas.data.prepare.options import PrepareOptions
    from recnas.data.raw.recipe import Recipe
    from recnas.data.raw.sources import Source

FORMAT = 3
MANIFEST = "manifest.json"
SIGNATURE = "signature.json"  # see recnas.trust.sign


def kept_recipe(recipe: Recipe) -> dict[str, Any]:
    """A recipe without what is only for people."""
    return recipe.model_dump(mode="json", exclude={"title", "source", "expected_rows"})


def prepared_options(recipe: Recipe, options: PrepareOptions, protocol: str, sources: list[Source]) -> dict[str, Any]:
    """What decides the content of a prepared folder; two folders with equal options are equal."""
    chosen = {
        name: value
        for name, value in asdict(options).items()
        if name not in ("side", "protocol", "shares", "like", "extend", "origins", "window", "origin")
    }
    if protocol == "rolling":
        chosen |= {**options.rolling(recipe).model_dump(), "origin": options.origin}
    if options.takes_shares(protocol):
        chosen["shares"] = list(options.shares_of(recipe))
    chosen["with_columns"] = list(options.with_columns)
    return {
        "recipe": kept_recipe(recipe),
        "protocol": protocol,
        **chosen,
        **({"folders": [source.partitions for source in sources]} if recipe.partitions else {}),
        "raw": [source.identity() for source in sources],
    }


def vocabulary_id(schema: Schema, digests: Mapping[str, str]) -> str:
    """Of what a model's inputs mean: the schema, and a checksum of the values behind each column's ids."""
    content = {"schema": schema.to_dict(), "values": dict(digests)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _rolling(path: Path, names: list[str]) -> DataError:
    return DataError(
        f"{path} holds {len(names)} origins of a rolling split, and one is needed here.",
        f"Name one, such as the last: {path / names[-1]}. (recnas search and recnas compare take the whole folder.)",
    )


class PreparedData:
    """Read access to a prepared folder."""

    def __init__(self, path: Path, manifest: dict[str, Any], schema: Schema) -> None:
        self.path = path
        self.manifest = manifest
        self.schema = schema

    @classmethod
    def find(cls, path: Path | str) -> PreparedData | None:
        """The data set in a folder, or None when there is none (or none that was finished)."""
        path = Path(path)
        return cls.open(path) if (path / MANIFEST).exists() else None

    @classmethod
    def open(cls, path: Path | str) -> PreparedData:
        path = Path(path)
        if path.is_file():
            raise DataError(
                f"{path} is a file, not a folder of prepared data.",
                f"If it is a raw log, prepare it first: recnas prepare RECIPE --raw {path} --out data/mine",
            )
        try:
            manifest = read_json(path / MANIFEST)
            if isinstance(manifest, dict) and "origins" in manifest:
                raise _rolling(path, manifest["origins"])
            schema = Schema.from_dict(read_json(path / "schema.json"))
        except (FileNotFoundError, NotADirectoryError) as error:
            what = (
                "was not finished"
                if (path / ".work").exists()
                else f"is not a prepared data set: {Path(error.filename).name} is missing"
            )
            raise DataError(f"{path} {what}.", f"Prepare it: recnas prepare RECIPE --raw FILE --out {path}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path} is damaged: manifest.json or schema.json cannot be read ({error}).", "Prepare it again."
            ) from None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or "fingerprint" not in manifest:
            raise DataError(
                f"{path} was prepared by another version of recnas, or its manifest.json belongs to something else.",
                "Prepare it again with this version.",
            )
        if not has_check(manifest):
            raise DataError(
                f"{path / MANIFEST} is not what was written: it was changed or damaged since.",
                "Restore it from a copy, or prepare the data again.",
            )
        check_files(path, ["schema.json"], manifest["checksums"])
        return cls(path, manifest, schema)

    @property
    def fingerprint(self) -> str:
        return self.manifest["fingerprint"]

    @property
    def vocabulary(self) -> str:
        """Stands for the values behind every id and the statistics of dense columns: data sets with the same one can be
        given to the same model."""
        if "vocabulary" in self.manifest:
            return self.manifest["vocabulary"]
        from recnas.data.prepare.vocab_files import vocabulary_digest  # of a version that did not write it down

        files = {f.name: self.path / "vocab" / f"{f.name}.parquet" for f in self.schema.sparse if f.own_rows}
        return vocabulary_id(self.schema, {name: vocabulary_digest(file) for name, file in files.items()})

    @property
    def lineage(self) -> list[dict[str, str]]:
        """Fingerprint and vocabulary of the data sets that this one was prepared like or extends, the first day first, and
        its own at the end."""
        own = {"fingerprint": self.fingerprint, "vocabulary": self.vocabulary, "path": str(self.path.resolve())}
        return [*self.manifest.get("lineage", []), own]

    def keeps_ids_of(self, fingerprint: str) -> bool:
        """Whether every id of those data means the same here (there may be new ones)."""
        return any(day["fingerprint"] == fingerprint for day in self.lineage)

    def keeps_vocabulary(self, vocabulary: str) -> bool:
        return any(day["vocabulary"] == vocabulary for day in self.lineage)

    def same_vocabulary_as(self, fingerprint: str) -> bool:
        """Whether a model of those data can read these."""
        days = {day["fingerprint"]: day["vocabulary"] for day in self.lineage}
        return days.get(fingerprint) == self.vocabulary

    @property
    def warnings(self) -> list[DataWarning]:
        """What was noticed about the data when they were prepared."""
        return [DataWarning(**warning) for warning in self.manifest["warnings"]]

    def rows(self, split: str) -> int:
        return int(self.manifest["rows"][split])

    def label_rates(self, split: str) -> list[float | None]:
        """Share of clicks by label, `[L]`."""
        several = self.manifest.get("label_rates", {"": self.manifest["click_rate"]})
        return [rates[split] for rates in several.values()]

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return "weight" in self.manifest

    @property
    def vectors(self) -> dict[str, dict[str, Any]]:
        """Pre-trained vectors by column: their width, how many values have one, whether they are trained."""
        return self.manifest.get("vectors", {})

    def read_vectors(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        """float32 [rows, V] in id order, NaN where there is none, and [V, V], see `prepare.vectors`."""
        width, found = self.vectors[column]["width"], []
        for name in (f"vectors/{column}.f32", f"vectors/{column}.basis.f32"):
            self.check_file(name)
            found.append(np.fromfile(self.path / name, dtype="<f4").reshape(-1, width))
        return found[0], found[1]

    @property
    def arrays(self) -> tuple[str, ...]:
        """What every split has, in the order of a `Batch`."""
        return ("dense", "ids", "label", "weight") if self.weighted else ("dense", "ids", "label")

    def array(self, split: str, array: str) -> np.ndarray:
        """`dense`, `ids`, `label` or, where rows have one, `weight` of `train`, `valid` or `test`.

        Where rows have bags, ids are padded as they are read (`bags.PaddedIds`).
        """
        found = open_array(self.path, split, array, self.rows(split), self.schema)
        if found.size:
            self.check_file(f"{split}/{FILES[array][0]}")
        if array == "ids" and self.schema.bags:
            return PaddedIds(np.asarray(found), self.bags(split))  # type: ignore[return-value]  # it reads like one
        return found

    def bags(self, split: str) -> list[BagArray]:
        """The fields with several values a row, in order."""
        found, rows = [], self.rows(split)
        for field in self.schema.bags:
            values = int(self.manifest["bags"][split][field.name]["values"])
            if rows:
                for name in bag_files(field.name):
                    self.check_file(f"{split}/{name}")
            found.append(open_bag(self.path, split, field, rows, values))
        return found

    def batches(
        self, split: str, batch_size: int = 512, *, shuffle: bool = False, seed: int = 0, epoch: int = 0
    ) -> Iterator[Batch]:
        """One pass over a split; the order of a shuffled one depends on seed and epoch alone.

        for batch in data.batches("train", 512, shuffle=True):
            batch.dense, batch.ids, batch.label      # [B, I] float32, [B, F] int64 (more with bags), [B] (or [B, L])
        """
        from recnas.data.loader import BatchLoader

        if split not in self.manifest["rows"]:
            raise DataError(f"There is no split {split!r}.", f"Name one of: {', '.join(self.manifest['rows'])}")
        loader = BatchLoader(self, split, batch_size, shuffle=shuffle, seed=seed)
        loader.load_state_dict({"epoch": epoch, "batch": 0})
        return loader.epoch()

    def check_file(self, name: str) -> None:
        """Before a file is used: it is what was prepared. Read once, then remembered by size and time stamp."""
        check_files(self.path, [name], self.manifest["checksums"])

    def check_options(self, wanted: dict[str, Any]) -> None:
        """Refuse to pass off a data set prepared with other options as the one asked for."""
        different = other_options(self.manifest["options"], wanted)
        if different:
            raise DataError(
                f"{self.path} was prepared with other options: {'; '.join(different)}.",
                f"Choose another --out, or start over: rm -r {self.path}",
            )

    def verify(self) -> list[str]:
        """Files whose bytes are not those that were written, and files that were not; empty when all is well."""
        listed = self.manifest["checksums"]
        bad = [f"{name}: not written by recnas" for name in sorted(self._names() - set(listed) - {MANIFEST, SIGNATURE})]
        for name, expected in listed.items():
            path = self.path / name
            if not path.exists():
                bad.append(f"{name}: missing")
            elif sha256_file(path) != expected:
                bad.append(f"{name}: changed")
        return bad

    def _names(self) -> set[str]:
        files = (file for file in self.path.rglob("*") if not file.is_dir())
        names = (str(file.relative_to(self.path)) for file in files)
        return {name for name in names if not name.startswith(".")}

    def summary(self, width: int = 16) -> dict[str, Any]:
        """The facts a person or a program asks for first."""
        manifest = self.manifest
        cells = {split: max(1, manifest["rows"][split]) for split in manifest["rows"]}
        return {
            "path": str(self.path),
            "recipe": manifest["options"]["recipe"]["name"],
            "protocol": manifest["options"]["protocol"],
            "fingerprint": manifest["fingerprint"],
            "vocabulary": manifest.get("vocabulary"),  # which data of earlier versions do not have
            "first_day": next((day["fingerprint"] for day in manifest.get("lineage", [])), None),
            "rows_in": manifest["rows_in"],
            "rejects": manifest["rejects"],
            "left_out": manifest.get("left_out"),
            "later": manifest.get("later"),
            "vectors": self.vectors,
            "rows": manifest["rows"],
            "click_rate": manifest["click_rate"],
            "label_rates": manifest.get("label_rates"),
            "weight": manifest.get("weight"),
            "effective_rows": manifest.get("effective_rows"),
            "dense": {
                field.name: {
                    "transform": field.transform,
                    "standardised": field.standardised,
                    **manifest["dense"][field.name],
                }
                for field in self.schema.dense
            },
            "cardinality": manifest["cardinality"],
            "unknown_share": {
                split: {name: count / cells[split] for name, count in columns.items()}
                for split, columns in manifest["unknown"].items()
            },
            "missing_share": {
                split: {name: count / cells[split] for name, count in columns.items()}
                for split, columns in manifest["missing"].items()
            },
            "bags": manifest.get("bags"),
            "pools": {field.name: asdict(field.bag) for field in self.schema.sparse if field.bag},
            "warnings": [warning.to_dict() for warning in self.warnings],
            "embedding_width": width,
            "embedding_bytes": self.schema.embedding_bytes(width),
        }


def vector_lines(vectors: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Of a manifest, in words."""
    return [
        f"vectors of {name}: {one['found']:,} of {one['values']:,} values have one of {one['width']} numbers in {one['file']} "
        f"({'trained on' if one['train'] else 'frozen'}); the other {one['values'] - one['found']:,} begin as usual"
        for name, one in vectors.items()
    ]


def other_options(before: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """`min_count was 1, now 5` for every option that differs, and which raw files."""
    files = [json.loads(json.dumps(options["raw"])) for options in (before, wanted)]
    shown = [
        [f"{file['split'] + ' ' if 'split' in file else ''}{file['name']} ({file['size']:,} bytes)" for file in some]
        for some in files
    ]
    lines = differences(*({**options, "raw": ", ".join(names)} for options, names in zip((before, wanted), shown)))
    if files[0] != files[1] and shown[0] == shown[1]:
        lines.append("the raw file was written to since")
    return lines
