"""Raw files as a sequence of blocks of whole lines: plain, gzip or zstd, one file or many.

Blocks are cut at fixed offsets of the (decompressed) text, moved to the next line start. So block k of
a file is the same whatever the number of threads and whether the file was compressed, which is what
makes an interrupted preparation continue where it stopped.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

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
_SKIPPED_NAMES = ("_", ".")  # _SUCCESS, .crc and other marks beside the data of a folder


@dataclass(frozen=True)
class Source:
    """One raw file."""

    path: Path
    size: int
    modified_ns: int
    split: str | None = None  # train, valid or test, where the files come as a ready split

    @property
    def compression(self) -> str | None:
        return _COMPRESSED.get(self.path.suffix.lower())

    def identity(self) -> dict[str, Any]:
        """What tells that this is still the file that an earlier attempt read."""
        facts = {"name": self.path.name, "size": self.size, "modified_ns": self.modified_ns}
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
        return find_sources([Path(path) for path in raw])
    absent = [f"--{split}" for split, paths in raw.parts().items() if not paths]
    if absent:
        raise ConfigError(
            f"A ready split has three parts; {' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not given.",
            "Give --train, --valid and --test, or all rows with --raw and a --protocol that splits them.",
        )
    sources = [
        replace(source, split=split)
        for split, paths in raw.parts().items()
        for source in find_sources([Path(path) for path in paths], f"--{split}")
    ]
    split_of: dict[Path, str | None] = {}
    for source in sources:
        if (before := split_of.setdefault(source.path.resolve(), source.split)) != source.split:
            raise ConfigError(
                f"{source.path} is given to --{before} and to --{source.split}.",
                "Rows that are trained on cannot be tested on: give every file once.",
            )
    return sources


def find_sources(paths: list[Path], option: str = "--raw") -> list[Source]:
    """The files behind `option`: a folder stands for its files in name order."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            if (path / "manifest.json").exists() and (path / "schema.json").exists():
                raise DataError(
                    f"{path} is a prepared data set, not raw files.",
                    f"Look at it: recnas inspect {path}. To prepare, give {option} the files it was made from.",
                )
            inside = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith(_SKIPPED_NAMES))
            if not inside:
                raise _no_files(path, option)
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise DataError(f"There is no file {path}.", f"Check the path given to {option}.")
    sources = []
    for file in files:
        stat = file.stat()
        if stat.st_size == 0:
            raise DataError(f"{file} is empty.", "Was the download or copy cut short? Fetch it again.")
        sources.append(Source(file, stat.st_size, stat.st_mtime_ns))
    return sources


def _no_files(folder: Path, option: str) -> DataError:
    depth, level = 0, [folder]
    while level and not any(item.is_file() for item in level):  # down to the first files, as in dt=2024-03-01/
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
    kind = source.compression
    if kind == "gzip":
        return gzip.open(source.path, "rb")  # type: ignore[return-value]
    if kind == "zstd":
        import pyarrow as pa

        return pa.input_stream(str(source.path), compression="zstd")
    return open(source.path, "rb")


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


def _too_long(path: Path | str, offset: int) -> DataError:
    return DataError(
        f"{path} has a line of more than {LONGEST_LINE:,} bytes near byte {offset:,}: this is not a text log.",
        "Check that --raw names the text file and that the recipe's format is right.",
    )


def block_at(source: Source, number: int, block_bytes: int) -> bytes:
    """Block `number` of an uncompressed file, equal to the one `stream_blocks` gives."""
    begin, boundary = number * block_bytes, (number + 1) * block_bytes
    with open(source.path, "rb") as file:
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
