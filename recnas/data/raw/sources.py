"""Raw files as a sequence of blocks of whole lines: plain, gzip or zstd, one file or many.

Blocks are cut at fixed offsets of the (decompressed) text, moved to the next line start. So block k of
a file is the same whatever the number of threads and whether the file was compressed, which is what
makes an interrupted preparation continue where it stopped.
"""

from __future__ import annotations

import glob
import gzip
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

import numpy as np

from recnas.data.raw.remote import AnyPath, RemotePath, as_path, open_path
from recnas.errors import ConfigError, DataError

LONGEST_LINE = 1 << 20
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_MARK = b"\xef\xbb\xbf"  # that Windows programs put at the start of UTF-8 files
_OTHER_KINDS = {
    b"PAR1": (
        "a Parquet file",
        "Set `format: parquet` in the recipe, or begin with: recnas datasets cp parquet my.yaml",
    ),
    b"\x1f\x8b": ("compressed with gzip", "Give it a name that ends in .gz."),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", "Give it a name that ends in .zst."),
    b"\xff\xfe": ("text in UTF-16", "Turn it into UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW"),
    b"\xfe\xff": ("text in UTF-16", "Turn it into UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW"),
    b"PK\x03\x04": ("a zip archive", "Unpack it first: unzip FILE"),
}
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # how Spark and Hive name the folder of rows without a value
STDIN = "-"
_SKIPPED_NAMES = ("_", ".")  # _SUCCESS, .crc and other marks beside the data of a folder


@dataclass(frozen=True)
class Source:
    """One raw file."""

    path: AnyPath
    size: int
    modified_ns: int
    split: str | None = None  # train, valid or test, where the files come as a ready split
    sha256: str | None = None  # of standard input, which has no name and no time
    version: str | None = None  # of a remote file: what changes when it is written

    @property
    def partitions(self) -> dict[str, str]:
        """Columns in the names of the folders right above the file, as dt=2024-03-01/hour=17."""
        found = {}
        for folder in self.path.parts[-2::-1]:
            name, equals, value = folder.partition("=")
            if not (name and equals):
                break
            found[name] = "" if value == _NO_VALUE else unquote(value)
        return found

    @property
    def compression(self) -> str | None:
        return _COMPRESSED.get(self.path.suffix.lower())

    def identity(self) -> dict[str, Any]:
        """What tells that this is still the file that an earlier attempt read."""
        if self.sha256 is not None:
            return {"name": STDIN, "size": self.size, "sha256": self.sha256}
        facts: dict[str, Any] = {"name": self.path.name, "size": self.size, "modified_ns": self.modified_ns}
        if isinstance(self.path, RemotePath):
            facts = {"name": str(self.path), "size": self.size, "version": self.version}
        return facts if self.split is None else {"split": self.split, **facts}


@dataclass(frozen=True)
class ReadySplit:
    """Raw files that somebody has already split: files or folders of each part."""

    train: Sequence[Path | str]
    valid: Sequence[Path | str]
    test: Sequence[Path | str]

    def parts(self) -> dict[str, Sequence[Path | str]]:
        return {"train": self.train, "valid": self.valid, "test": self.test}


Raw = Sequence[Path | str] | ReadySplit


def raw_paths(raw: Raw) -> list[Path | str]:
    """All paths as they were given (a Path of `s3://logs` has lost a slash)."""
    if isinstance(raw, ReadySplit):
        return [path for paths in raw.parts().values() for path in paths]
    return list(raw)


def raw_sources(raw: Raw) -> list[Source]:
    """The files to read, in the order in which their rows are counted: train, valid, test of a ready split."""
    if not isinstance(raw, ReadySplit):
        return find_sources(raw)
    absent = [f"--{split}" for split, paths in raw.parts().items() if not paths]
    if absent:
        raise ConfigError(
            f"A ready split has three parts; {' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not given.",
            "Give --train, --valid and --test, or all rows with --raw and a --protocol that splits them.",
        )
    sources = [
        replace(source, split=split)
        for split, paths in raw.parts().items()
        for source in find_sources(paths, f"--{split}")
    ]
    split_of: dict[AnyPath, str | None] = {}
    for source in sources:
        if (before := split_of.setdefault(source.path.resolve(), source.split)) != source.split:
            raise ConfigError(
                f"{source.path} is given to --{before} and to --{source.split}.",
                "Rows that are trained on cannot be tested on: give every file once.",
            )
    return sources


def find_sources(paths: Sequence[AnyPath | str], option: str = "--raw") -> list[Source]:
    """The files behind `option`: a folder stands for its files in name order."""
    files: list[AnyPath] = []
    for path in map(as_path, paths):
        if path.is_dir():
            if (path / "manifest.json").exists() and (path / "schema.json").exists():
                raise DataError(
                    f"{path} is a prepared data set, not raw files.",
                    f"Look at it: recnas inspect {path}. To prepare, give {option} the files it was made from.",
                )
            files += _inside(path, option)
        elif path.exists():
            files.append(path)
        elif any(character in str(path) for character in "*?["):
            matches = _matches(path)
            if not matches:
                raise DataError(f"No file matches {path}.", f"Check the pattern given to {option}: ls {path}")
            for match in matches:
                files += _inside(match, option) if match.is_dir() else [match]
        else:
            raise DataError(f"There is no file {path}.", f"Check the path given to {option}.")
    sources = []
    for file in files:
        if isinstance(file, RemotePath):
            source = Source(file, file.stat()[0], 0, version=file.stat()[1])
        else:
            stat = file.stat()
            source = Source(file, stat.st_size, stat.st_mtime_ns)
        if source.size == 0:
            raise DataError(f"{file} is empty.", "Was the download or copy cut short? Fetch it again.")
        sources.append(source)
    return sources


def _matches(pattern: AnyPath) -> Sequence[AnyPath]:
    if isinstance(pattern, RemotePath):
        return pattern.matches()
    return sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))


def _inside(folder: AnyPath, option: str) -> list[AnyPath]:
    """The files of a folder in name order; of one with partitions (dt=2024-03-01/) those of all partitions."""
    listed: list[Any] = [item for item in folder.iterdir() if not item.name.startswith(_SKIPPED_NAMES)]
    items = sorted(listed)
    files = [item for item in items if item.is_file()]
    parts = [item for item in items if item.is_dir() and "=" in item.name]
    if not files and not parts:
        raise _no_files(folder, option)
    return files or [file for part in parts for file in _inside(part, option)]


def read_stdin(folder: Path, stream: IO[bytes]) -> Source:
    """Standard input as a file in `folder`: rows are read more than once."""
    if stream.isatty():
        raise DataError(
            "--raw - reads standard input, and nothing is piped in.", "For instance: zcat rows.gz | recnas ..."
        )
    start = stream.read(4)
    suffix = {b"PAR1": ".parquet", b"\x28\xb5\x2f\xfd": ".zst"}.get(start, ".gz" if start[:2] == b"\x1f\x8b" else "")
    folder.mkdir(parents=True, exist_ok=True)
    path, digest, size = folder / f"rows{suffix}", hashlib.sha256(start), len(start)
    with open(path, "wb") as out:
        out.write(start)
        while piece := stream.read(1 << 20):
            digest.update(piece)
            size += out.write(piece)
    if not size:
        raise DataError("Standard input is empty, and --raw - reads it.", "Pipe the rows in: cat rows | recnas ...")
    return Source(path, size, 0, sha256=digest.hexdigest())


def check_partitions(partitions: Sequence[str], sources: Sequence[Source]) -> None:
    for source in sources:
        absent = [name for name in partitions if name not in source.partitions]
        if absent:
            raise DataError(
                f"{source.path} lies in no folder {absent[0]}=..., and the recipe has {absent[0]} under `partitions`.",
                f"Move it to a folder such as {absent[0]}=VALUE/ and give --raw the folder above, or leave the file out.",
            )


def _no_files(folder: AnyPath, option: str) -> DataError:
    depth = 0
    level: list[Any] = [folder]
    while level and not any(item.is_file() for item in level):  # down to the first files
        level = [item for parent in level if parent.is_dir() for item in parent.iterdir()]
        depth += 1
    if not level:
        return DataError(f"The folder {folder} has no files in it.", "Give the folder that holds the raw files.")
    return DataError(
        f"The folder {folder} has no files in it, only folders.",
        f"Name those that hold the files: {option} {folder}/{'*/' * (depth - 1)}",
    )


def check_is_text(source: Source) -> None:
    """Refuse what is certainly no text, by the (decompressed) bytes it begins with."""
    with open_stream(source) as stream:
        start = read_some(source, stream, 4)
    for magic, (what, fix) in _OTHER_KINDS.items():
        if start.startswith(magic):
            raise DataError(f"{source.path} is {what}, but the recipe says `format: text`.", fix)


def open_stream(source: Source) -> IO[bytes]:
    """The decompressed bytes of a source, from the start."""
    kind, path = source.compression, source.path
    if kind == "gzip":
        return gzip.open(path.open() if isinstance(path, RemotePath) else path, "rb")  # type: ignore[return-value]
    if kind == "zstd":
        import pyarrow as pa

        return pa.input_stream(path.open() if isinstance(path, RemotePath) else str(path), compression="zstd")
    return open_path(path)


def read_some(source: Source, stream: IO[bytes], size: int) -> bytes:
    """Read exactly `size` bytes unless the stream ends; a broken archive is the user's to mend."""
    parts: list[bytes] = []
    missing = size
    try:
        while missing > 0:
            part = stream.read(missing)
            if not part:
                break
            parts.append(part)
            missing -= len(part)
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(
            f"{source.path} cannot be decompressed: {error}.",
            "The archive is cut short or damaged. Fetch it again, and compare its size with the original's.",
        ) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def stream_blocks(source: Source, block_bytes: int) -> Iterator[bytes]:
    """The blocks of a file, without a byte order mark at its start."""
    for number, block in enumerate(_stream(source, block_bytes)):
        yield block if number else block.removeprefix(_MARK)


def _stream(source: Source, block_bytes: int) -> Iterator[bytes]:
    """Blocks of whole lines in order; block k holds the lines that start in its `block_bytes` of text
    (none at all under a line longer than a block). Works for every kind of file; needs no seek."""
    with open_stream(source) as stream:
        held = b""  # text read but not yet given out
        begin = 0  # offset of its first byte
        boundary = block_bytes
        ended = False
        while True:
            if begin >= boundary:
                yield b""
                boundary += block_bytes
                continue
            search = boundary - 1 - begin  # a newline from here on ends the block
            cut = held.find(b"\n", search)
            while cut < 0 and not ended:
                wanted = max(boundary - begin - len(held), 1 << 16)
                fresh = read_some(source, stream, wanted)
                ended = len(fresh) < wanted
                search = max(search, len(held))
                held += fresh
                cut = held.find(b"\n", search)
                if len(held) - (boundary - begin) > LONGEST_LINE and cut < 0:
                    raise _too_long(source.path, boundary)
            if cut < 0:
                if held:
                    yield held
                return
            yield held[: cut + 1]
            held = held[cut + 1 :]
            begin += cut + 1
            boundary += block_bytes


def record_blocks(source: Source, block_bytes: int) -> Iterator[bytes]:
    """Blocks that end where a row ends, of a file whose cells in quotes may hold line breaks: where as many quotes opened
    as closed. So it is read from its start, and what is in a block depends on `block_bytes` alone."""
    held, number = b"", 0
    with open_stream(source) as stream:
        while True:
            fresh = read_some(source, stream, block_bytes)
            text = np.frombuffer(held + fresh, np.uint8)
            breaks = np.flatnonzero(text == ord("\n"))
            outside = breaks[np.cumsum(text == ord('"'))[breaks] % 2 == 0]
            cut = len(text) if len(fresh) < block_bytes else int(outside[-1]) + 1 if len(outside) else 0
            block, held = text[:cut].tobytes(), text[cut:].tobytes()
            if len(held) > LONGEST_LINE + block_bytes:
                raise DataError(
                    f"{source.path} has a quote that does not close within {LONGEST_LINE:,} bytes.",
                    "Correct the file, or take line_breaks out of the recipe to find the line: bad lines are then told.",
                )
            if block:
                yield block if number else block.removeprefix(_MARK)
                number += 1
            if len(fresh) < block_bytes:
                return


def text_blocks(source: Source, block_bytes: int, line_breaks: bool) -> Iterator[bytes]:
    return record_blocks(source, block_bytes) if line_breaks else stream_blocks(source, block_bytes)


def _too_long(path: AnyPath | str, offset: int) -> DataError:
    return DataError(
        f"{path} has a line of more than {LONGEST_LINE:,} bytes near byte {offset:,}: this is not a text log.",
        "Check that --raw names the text file and that the recipe's format is right.",
    )


def block_at(source: Source, number: int, block_bytes: int) -> bytes:
    """Block `number` of an uncompressed file, equal to the one `stream_blocks` gives."""
    begin, boundary = number * block_bytes, (number + 1) * block_bytes
    with open_path(source.path, scattered=True) as file:
        # The line that contains the byte before `begin` belongs to an earlier block.
        skip = _to_line_start(file, begin)
        stop = min(_to_line_start(file, boundary), source.size)
        if skip >= stop:
            return b""
        file.seek(skip)
        block = file.read(stop - skip)
        return block if number else block.removeprefix(_MARK)


def _to_line_start(file: IO[bytes], offset: int) -> int:
    """The first line start at or after `offset`."""
    if offset == 0:
        return 0
    position = offset - 1
    file.seek(position)
    while True:
        piece = file.read(1 << 16)
        at = piece.find(b"\n")
        if at >= 0:
            return position + at + 1
        if not piece:
            return position
        position += len(piece)
        if position - offset > LONGEST_LINE:
            raise _too_long(file.name, offset)
