"""Image files as their publishers made them: CIFAR binaries, ImageNet16 batches, MNIST idx files, npz.

    CIFAR-10    data_batch_1.bin ... 5, test_batch.bin: per image 1 byte label, 3,072 bytes (red, green, blue planes)
    CIFAR-100   train.bin, test.bin: 1 byte coarse label, 1 byte fine label, 3,072 bytes
                either also as pickles, the same names without .bin: {"data": uint8 [N, 3072], "labels" or "fine_labels"}
    ImageNet16  train_data_batch_1 ... 10, val_data: pickled {"data": uint8 [N, 768], "labels": 1 ... 1000}
    idx         train-images-idx3-ubyte and the like, plain or .gz: big-endian header, then bytes

ImageNet16 exists only as pickles, CIFAR in both forms. Pickles are read by an unpickler that knows numpy arrays and plain
containers and refuses everything else, so a file cannot run code.
"""

from __future__ import annotations

import codecs
import gzip
import pickle
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from recnas.errors import DataError

Read = tuple[np.ndarray, np.ndarray]  # uint8 images [N, H, W, 3] or [N, H, W], labels [N]


@dataclass(frozen=True)
class Known:
    """A data set recnas can read.

    Args:
        name: what the user types.
        source: where it comes from, as a sentence.
        read: turns its folder and a split into images and labels.
        classes: how many there are.
        mean, std: of each colour, in bytes.
        pad: black pixels added on every side, to make 28 pixels 32.
    """

    name: str
    source: str
    read: Callable[[Path, str], Read]
    classes: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    pad: int = 0


def read_images(known: Known, folder: Path, split: str) -> Read:
    """The images of one split; a missing file is reported with where it comes from."""
    if not folder.is_dir():
        raise DataError(
            f"{folder} is a file, not a folder or a .npz.", f"Give the folder with the files. {known.source}"
        )
    try:
        return known.read(folder, split)
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} has no {Path(error.filename).name}, which {known.name} needs.",
            f"{known.source} Then put its files there.",
        ) from None


def read_npz(path: Path) -> Read:
    """`images` and `labels` of an npz file, without unpickling anything."""
    try:
        with np.load(path, allow_pickle=False) as file:
            images, labels = file["images"], file["labels"]
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} cannot be read as images ({error}).",
            "Save it with numpy.savez(path, images=..., labels=...).",
        ) from None
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3):
        raise DataError(
            f"{path} has images of type {images.dtype} and shape {images.shape}.",
            "Save them as uint8 [N, H, W, 3] or [N, H, W].",
        )
    if labels.shape != images.shape[:1]:
        raise DataError(
            f"{path} has {len(images)} images and labels of shape {labels.shape}.",
            "Save one label per image.",
        )
    return images, labels


def _planes(rows: np.ndarray, side: int) -> np.ndarray:
    """`[N, 3 * side * side]`, colour after colour, as `[N, side, side, 3]`."""
    return rows.reshape(-1, 3, side, side).transpose(0, 2, 3, 1)


def _cifar(path: Path, label_bytes: int) -> Read:
    data = np.fromfile(path, np.uint8)
    width = label_bytes + 3072
    if not len(data) or len(data) % width:
        raise DataError(
            f"{path} has {len(data):,} bytes, which is no whole number of images of {width:,} bytes.",
            "The file is cut short or of another version: take the binary version and unpack it again.",
        )
    rows = data.reshape(-1, width)
    return _planes(rows[:, label_bytes:], 32), rows[:, label_bytes - 1]


def _joined(parts: list[Read]) -> Read:
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def _cifar10(folder: Path, split: str) -> Read:
    names = [f"data_batch_{n}" for n in range(1, 6)] if split == "train" else ["test_batch"]
    return _joined([_either_cifar(folder, name, 1, "labels") for name in names])


def _cifar100(folder: Path, split: str) -> Read:
    return _either_cifar(folder, split, 2, "fine_labels")


def _either_cifar(folder: Path, name: str, label_bytes: int, labels: str) -> Read:
    """The binary file if it is there, else the pickle of the same name."""
    binary, pickled = folder / f"{name}.bin", folder / name
    if binary.exists() or not pickled.is_file():
        return _cifar(binary, label_bytes)
    return _pickled(pickled, 32, labels, "a CIFAR")


def _idx(folder: Path, split: str) -> Read:
    part = "train" if split == "train" else "t10k"
    return _idx_array(folder, f"{part}-images-idx3-ubyte", 3), _idx_array(folder, f"{part}-labels-idx1-ubyte", 1)


def _idx_array(folder: Path, name: str, axes: int) -> np.ndarray:
    packed = folder / f"{name}.gz"
    try:
        data = gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{packed} cannot be unpacked ({error}).", "Download it again.") from None
    header = 4 + 4 * axes
    shape = tuple(int(n) for n in np.frombuffer(data[4:header], ">u4"))
    if data[:4] != bytes([0, 0, 8, axes]) or len(data) != header + int(np.prod(shape)):
        raise DataError(f"{folder / name} is not a whole idx file of bytes.", "Download it again.")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


IMAGENET16_CLASSES = 120  # the benchmark uses the first 120 of 1,000 classes


def _imagenet16(folder: Path, split: str) -> Read:
    names = [f"train_data_batch_{n}" for n in range(1, 11)] if split == "train" else ["val_data"]
    images, labels = _joined([_imagenet16_file(folder / name) for name in names])
    kept = labels <= IMAGENET16_CLASSES
    return images[kept], labels[kept] - 1


def _imagenet16_file(path: Path) -> Read:
    return _pickled(path, 16, "labels", "an ImageNet16")


def _pickled(path: Path, side: int, name: str, kind: str) -> Read:
    """A pickled batch: planes of bytes under "data", labels under `name`."""
    with open(path, "rb") as file:
        found = load_arrays(file, path)
    data, labels = (found.get("data"), found.get(name)) if isinstance(found, dict) else (None, None)
    width = 3 * side * side
    if (
        not isinstance(data, np.ndarray)
        or data.dtype != np.uint8
        or data.shape[1:] != (width,)
        or not isinstance(labels, (list, np.ndarray))
        or len(labels) != len(data)
    ):
        raise DataError(
            f"{path} is not {kind} batch: it has no data of {width:,} bytes per image with as many {name}.",
            "Check that it belongs to this data set and unpack it again.",
        )
    return _planes(data, side), np.asarray(labels, np.int64)


_PARTS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): codecs.encode,
}


class _ArraysOnly(pickle.Unpickler):
    """Knows what pickled numpy arrays of numbers are made of, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known = _PARTS.get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return known


def load_arrays(file: IO[bytes], path: Path) -> Any:
    """A pickle of containers, numbers, text and numpy arrays; anything else is refused."""
    try:
        return _ArraysOnly(file, encoding="latin1").load()
    except (
        pickle.UnpicklingError,
        EOFError,
        ValueError,
        TypeError,
        AttributeError,
        IndexError,
        KeyError,
    ) as error:
        raise DataError(
            f"{path} is not a pickle of plain arrays ({error}).", "Download it again from its publisher."
        ) from None


def _grey(mean: float, std: float) -> dict[str, Any]:
    return {"mean": (mean * 255,) * 3, "std": (std * 255,) * 3, "pad": 2}


_CIFAR = "Take the binary or the Python version from https://www.cs.toronto.edu/~kriz/cifar.html and unpack it."
_ALL = (
    Known("cifar10", _CIFAR, _cifar10, 10, (125.3, 123.0, 113.9), (63.0, 62.1, 66.7)),
    Known("cifar100", _CIFAR, _cifar100, 100, (129.3, 124.1, 112.4), (68.2, 65.4, 70.4)),
    Known(
        "imagenet16-120",
        "Take ImageNet16 as published with NAS-Bench-201 (https://github.com/D-X-Y/NAS-Bench-201) and unpack it.",
        _imagenet16,
        IMAGENET16_CLASSES,
        (122.68, 116.66, 104.01),
        (63.22, 61.26, 65.09),
    ),
    Known(
        "mnist",
        "Take the four idx files of MNIST from http://yann.lecun.com/exdb/mnist.",
        _idx,
        10,
        **_grey(0.1307, 0.3081),
    ),
    Known(
        "fashion-mnist",
        "Take the four idx files from https://github.com/zalandoresearch/fashion-mnist.",
        _idx,
        10,
        **_grey(0.2860, 0.3530),
    ),
)
KNOWN = {known.name: known for known in _ALL}
