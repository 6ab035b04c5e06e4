"""Raw files on object stores, by address: s3://, gs://, hf:// (the Hugging Face hub), and memory:// of a process.

`RemotePath` has what the readers use of a `pathlib.Path`, so folders, patterns and partitions are walked by the same code.
Bytes are read in pieces as they are needed; nothing is copied to the disk. Needs fsspec and its package for the store: `recnas[remote]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from recnas.errors import BackendMissing, ConfigError, DataError, RecnasError

PROTOCOLS = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "hf": "huggingface_hub",
    "memory": "fsspec",
}  # and their packages
_ADDRESS = re.compile(r"^([a-z][a-z0-9+.-]+):/{1,2}(?=[^/])")  # a Path of s3://logs has lost a slash
# What a listing says that changes whenever a file is written, the best first.
_VERSIONS = (
    "ETag",
    "etag",
    "md5Hash",
    "generation",
    "blob_id",
    "oid",
    "LastModified",
    "last_modified",
    "updated",
    "mtime",
    "created",
)

T = TypeVar("T")


def as_path(path: Path | RemotePath | str) -> Path | RemotePath:
    """A path of this machine, or an address."""
    if isinstance(path, RemotePath):
        return path
    match = _ADDRESS.match(str(path))
    if match is None or (isinstance(path, Path) and path.exists()):
        return Path(path)
    if match[1] not in PROTOCOLS:
        raise ConfigError(
            f"{path}: files are not read by {match[1]}://.",
            f"Known are {', '.join(f'{name}://' for name in PROTOCOLS)}, and paths of this machine.",
        )
    return RemotePath(match[1], str(path)[match.end() :].rstrip("/"))


@total_ordering
@dataclass(frozen=True)
class RemotePath:
    """`s3://bucket/logs/a.csv` is the store `s3` and the key `bucket/logs/a.csv`."""

    store: str
    key: str
    facts: dict[str, Any] | None = field(default=None, compare=False, repr=False)  # of a listing

    def __str__(self) -> str:
        return f"{self.store}://{self.key}"

    def __lt__(self, other: RemotePath) -> bool:
        return self.parts < other.parts

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.store, f"{self.key}/{name}")

    @property
    def parts(self) -> tuple[str, ...]:
        return (f"{self.store}://", *self.key.split("/"))

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        return Path(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.store, self.key.rpartition("/")[0])

    def resolve(self) -> RemotePath:
        return self

    def with_name(self, name: str) -> RemotePath:
        return self.parent / name

    # What is there

    def info(self) -> dict[str, Any] | None:
        """What the store says of it; None if there is nothing."""
        if self.facts is not None:
            return self.facts
        with _explained(self):
            try:
                return dict(_filesystem(self.store).info(self._whole))
            except (FileNotFoundError, IsADirectoryError):
                return None

    def exists(self) -> bool:
        return self.info() is not None

    def is_dir(self) -> bool:
        return (self.info() or {}).get("type") == "directory"

    def is_file(self) -> bool:
        return (self.info() or {}).get("type") == "file"

    def iterdir(self) -> Iterator[RemotePath]:
        with _explained(self):
            listed = _filesystem(self.store).ls(self._whole, detail=True)
        for facts in listed:
            found = self._of(facts["name"], facts)
            if found.key != self.key:  # some stores list the folder itself
                yield found

    def matches(self) -> list[RemotePath]:
        """Of the pattern that this is, in order."""
        with _explained(self):
            found = _filesystem(self.store).glob(self._whole, detail=True)
        return sorted(self._of(name, facts) for name, facts in found.items())

    def stat(self) -> tuple[int, str | None]:
        """Size, and what tells that it is still the same file."""
        facts = self.info() or {}
        version = next((str(facts[name]) for name in _VERSIONS if facts.get(name)), None)
        return int(facts.get("size") or 0), version

    def open(self, scattered: bool = False) -> IO[bytes]:
        """For reading from the start to the end, or `scattered`: only what is asked for is fetched."""
        how = {"cache_type": "none"} if scattered else {}
        with _explained(self):
            return cast(IO[bytes], _Reading(self, _filesystem(self.store).open(self._whole, "rb", **how)))

    @property
    def _whole(self) -> str:
        return f"{self.store}://{self.key}"

    def _of(self, name: str, facts: dict[str, Any]) -> RemotePath:
        return RemotePath(self.store, name.strip("/"), dict(facts))


AnyPath = Path | RemotePath


def open_path(path: AnyPath, scattered: bool = False) -> IO[bytes]:
    return path.open(scattered) if isinstance(path, RemotePath) else path.open("rb")


class _Reading:
    """An open file whose errors say which file they are of, and what may be wrong."""

    def __init__(self, path: RemotePath, file: Any) -> None:
        self.path, self.name, self._file = path, str(path), file

    def _explain(self, call: Callable[..., T], *args: Any) -> T:
        with _explained(self.path):
            return call(*args)

    def read(self, size: int = -1) -> bytes:
        return bytes(self._explain(self._file.read, size))

    def seek(self, place: int, whence: int = 0) -> int:
        return int(self._explain(self._file.seek, place, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        return

    def __enter__(self) -> _Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@lru_cache(maxsize=16)
def _filesystem(store: str) -> Any:
    package = PROTOCOLS[store]
    try:
        import fsspec

        # Listings are made anew: files come and go while a process lives.
        return fsspec.filesystem(store, use_listings_cache=False)
    except ImportError:
        raise BackendMissing(
            f"{store}:// needs {'fsspec' if package == 'fsspec' else f'fsspec and {package}'}, not installed here.",
            "pip install 'recnas[remote]'",
        ) from None


@contextmanager
def _explained(path: RemotePath) -> Iterator[None]:
    """Every store has errors of its own; a user needs the address, the reason, and where access is set."""
    try:
        yield
    except (RecnasError, KeyboardInterrupt, GeneratorExit, FileNotFoundError, IsADirectoryError) as error:
        if isinstance(error, OSError):
            raise DataError(f"There is no file {path}.", "Check the address given to --raw.") from None
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise DataError(
            f"{path} cannot be read: {reason}.",
            "Check the address, the network, and the access keys that the store's own tools use (for s3:// AWS_ACCESS_KEY_ID, "
            "AWS_PROFILE, AWS_ENDPOINT_URL and so on). The same command continues.",
        ) from None
