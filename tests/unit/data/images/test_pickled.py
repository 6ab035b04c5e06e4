"""CIFAR as its publishers pickled it; a pickle that asks for anything but arrays is refused."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from recnas.data.images.sets import load_images
from recnas.errors import DataError

RNG = np.random.default_rng(0)


def planes(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def pixels(rows: int) -> np.ndarray:
    return RNG.integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8)


def test_cifar10_pickles(tmp_path: Path):
    images, labels = pixels(10), list(range(10))
    for n in range(5):
        batch = {
            "batch_label": f"{n}",
            "labels": labels[2 * n : 2 * n + 2],
            "data": planes(images[2 * n : 2 * n + 2]),
            "filenames": ["a", "b"],
        }
        (tmp_path / f"data_batch_{n + 1}").write_bytes(pickle.dumps(batch, 2))
    (tmp_path / "test_batch").write_bytes(pickle.dumps({"labels": [7], "data": planes(images[:1])}, 4))
    train, test = load_images("cifar10", tmp_path), load_images("cifar10", tmp_path, "test")
    np.testing.assert_array_equal(train.images, images)
    assert train.labels.tolist() == labels
    assert test.labels.tolist() == [7]


def test_cifar100_pickles_give_the_fine_label(tmp_path: Path):
    images = pixels(3)
    batch = {"coarse_labels": [19, 0, 1], "fine_labels": [99, 3, 4], "data": planes(images)}
    (tmp_path / "train").write_bytes(pickle.dumps(batch, 2))
    found = load_images("cifar100", tmp_path)
    np.testing.assert_array_equal(found.images, images)
    assert found.labels.tolist() == [99, 3, 4]


def test_a_pickle_of_python_2_is_read(tmp_path: Path):
    """Python 2 wrote its keys as byte strings; here one key is rewritten that way."""
    images = pixels(1)
    data = pickle.dumps({"fine_labels": [5], "data": planes(images)}, 2).replace(b"X\x04\x00\x00\x00data", b"U\x04data")
    (tmp_path / "train").write_bytes(data)
    np.testing.assert_array_equal(load_images("cifar100", tmp_path).images, images)


def test_binaries_come_first(tmp_path: Path):
    (tmp_path / "train").write_bytes(b"no pickle")
    np.hstack([np.zeros((1, 1), np.uint8), np.full((1, 1), 8, np.uint8), planes(pixels(1))]).tofile(
        tmp_path / "train.bin"
    )
    assert load_images("cifar100", tmp_path).labels.tolist() == [8]


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"data": Evil(), "fine_labels": []}),
        b"",
        pickle.dumps([1]),
        pickle.dumps({"data": np.zeros((2, 768), np.uint8), "fine_labels": [1, 2]}),  # another data set
        pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "fine_labels": [1]}),  # a label is missing
        pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2]}),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "train").write_bytes(content)
    with pytest.raises(DataError, match="train is not"):
        load_images("cifar100", tmp_path)
