"""Images: every file format on files written here, and batches that depend on the seed only."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from recnas.data.images.sets import ImageSet, generated_images, image_batches, load_images
from recnas.errors import ConfigError, DataError

RNG = np.random.default_rng(0)


def pixels(rows: int, side: int) -> np.ndarray:
    return RNG.integers(0, 256, (rows, side, side, 3), dtype=np.uint8)


def planes(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def write_idx(path: Path, array: np.ndarray, packed: bool) -> None:
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    data = header + array.tobytes()
    (path.with_name(path.name + ".gz") if packed else path).write_bytes(gzip.compress(data) if packed else data)


def test_cifar10_binaries(tmp_path):
    images, labels = pixels(10, 32), np.arange(10, dtype=np.uint8)
    for n in range(5):
        some = slice(2 * n, 2 * n + 2)
        np.hstack([labels[some, None], planes(images[some])]).tofile(tmp_path / f"data_batch_{n + 1}.bin")
    np.hstack([labels[:3, None], planes(images[:3])]).tofile(tmp_path / "test_batch.bin")
    train, test = load_images("cifar10", tmp_path), load_images("cifar10", tmp_path, "test")
    np.testing.assert_array_equal(train.images, images)
    np.testing.assert_array_equal(train.labels, labels)
    assert (len(train), len(test), train.side, train.classes) == (10, 3, 32, 10)


def test_cifar100_takes_the_fine_label(tmp_path):
    images, fine = pixels(4, 32), np.array([0, 99, 7, 8], np.uint8)
    np.hstack([np.full((4, 1), 19, np.uint8), fine[:, None], planes(images)]).tofile(tmp_path / "train.bin")
    found = load_images("cifar100", tmp_path)
    np.testing.assert_array_equal(found.images, images)
    assert found.labels.tolist() == [0, 99, 7, 8]


@pytest.mark.parametrize("protocol", [2, 4])
def test_imagenet16_keeps_the_first_120_classes(tmp_path, protocol):
    images, labels = pixels(4, 16), [1, 121, 120, 1000]
    (tmp_path / "val_data").write_bytes(pickle.dumps({"data": planes(images), "labels": labels}, protocol))
    found = load_images("imagenet16-120", tmp_path, "test")
    np.testing.assert_array_equal(found.images, images[[0, 2]])
    assert found.labels.tolist() == [0, 119]


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    "content", [pickle.dumps({"data": Evil(), "labels": []}), b"", b"no pickle", pickle.dumps([1])]
)
def test_a_pickle_with_anything_else_is_refused(tmp_path, content):
    (tmp_path / "val_data").write_bytes(content)
    with pytest.raises(DataError, match="val_data is not"):
        load_images("imagenet16-120", tmp_path, "test")


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize("packed", [True, False], ids=["gz", "plain"])
def test_idx_files_become_colour_of_32_pixels(tmp_path, name, packed):
    images, labels = pixels(5, 28)[..., 0], np.array([9, 0, 1, 2, 3], np.uint8)
    write_idx(tmp_path / "train-images-idx3-ubyte", images, packed)
    write_idx(tmp_path / "train-labels-idx1-ubyte", labels, packed)
    found = load_images(name, tmp_path)
    assert found.images.shape == (5, 32, 32, 3)
    for colour in range(3):
        np.testing.assert_array_equal(found.images[:, 2:-2, 2:-2, colour], images)
    assert found.images[:, :2].max() == 0
    assert found.labels.tolist() == labels.tolist()


def test_npz_for_any_data_set(tmp_path):
    images = pixels(3, 32)
    np.savez(tmp_path / "some.npz", images=images, labels=np.array([0, 1, 2], np.uint8))
    np.testing.assert_array_equal(load_images("cifar10", tmp_path / "some.npz").images, images)
    np.savez(tmp_path / "float.npz", images=images / 255, labels=np.zeros(3))
    with pytest.raises(DataError, match="type float64"):
        load_images("cifar10", tmp_path / "float.npz")
    np.savez(tmp_path / "labels.npz", images=images, labels=np.zeros(2))
    with pytest.raises(DataError, match="3 images and labels of shape"):
        load_images("cifar10", tmp_path / "labels.npz")
    np.savez(tmp_path / "other.npz", images=images, labels=np.array([0, 1, 10]))
    with pytest.raises(DataError, match="labels from 0 to 10, but cifar10 has 10 classes"):
        load_images("cifar10", tmp_path / "other.npz")
    (tmp_path / "bad.npz").write_bytes(b"no zip")
    with pytest.raises(DataError, match="cannot be read as images"):
        load_images("cifar10", tmp_path / "bad.npz")


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "imagenet16-120", "mnist", "fashion-mnist"])
def test_missing_files_say_where_they_come_from(tmp_path, monkeypatch, name):
    with pytest.raises(DataError, match=r"has no .* needs\.\n.*https?://.* put its files there"):
        load_images(name, tmp_path)
    with pytest.raises(DataError, match=r"nothing at .*\n.*https?://"):
        load_images(name, tmp_path / "nowhere")
    monkeypatch.delenv("RECNAS_IMAGES", raising=False)
    with pytest.raises(DataError, match=r"is not known\.\n.*set RECNAS_IMAGES"):
        load_images(name)
    monkeypatch.setenv("RECNAS_IMAGES", str(tmp_path))
    with pytest.raises(DataError, match=f"nothing at {tmp_path / name}"):
        load_images(name)
    one = tmp_path / "some.npz"
    one.write_bytes(b"")
    monkeypatch.setenv("RECNAS_IMAGES", str(one))
    with pytest.raises(DataError, match=r"a file; it must be a folder.*\n.*images.path=.*some.npz"):
        load_images("cifar10")


def test_damaged_files_are_refused(tmp_path):
    (tmp_path / "train.bin").write_bytes(bytes(3073))
    with pytest.raises(DataError, match="3,073 bytes, which is no whole number of images"):
        load_images("cifar100", tmp_path)
    with pytest.raises(DataError, match="is a file, not a folder"):
        load_images("cifar100", tmp_path / "train.bin")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3]) + bytes(12) + b"more")
    with pytest.raises(DataError, match="not a whole idx file"):
        load_images("mnist", tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be unpacked"):
        load_images("mnist", tmp_path)
    with pytest.raises(ConfigError, match="no image data set called 'cifar'"):
        load_images("cifar")


def test_batches_are_normalised_and_disjoint():
    images = generated_images(classes=4, rows=40, side=8, seed=1)
    everything = torch.cat([pixels for pixels, _ in image_batches(images, batch=10, count=4)])
    assert everything.dtype == torch.float32
    assert everything.shape == (40, 3, 8, 8)
    assert everything.is_contiguous()
    torch.testing.assert_close(everything.mean((0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(everything.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-4, rtol=0)
    assert len(everything.flatten(1).unique(dim=0)) == 40, "an image came twice"


def test_batches_depend_on_the_seed_only():
    images = generated_images(rows=50, side=8)
    one, two, other = (image_batches(images, 8, 2, seed) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for x, y in zip(one, two) for a, b in zip(x, y))
    assert not torch.equal(one[0][0], other[0][0])
    again = generated_images(rows=50, side=8)
    np.testing.assert_array_equal(images.images, again.images)


def test_one_thing_changes_at_a_time():
    images = generated_images(classes=10, rows=200, side=8)
    plain = image_batches(images, 100, 2)
    labels = image_batches(images, 100, 2, labels="random")
    noise = image_batches(images, 100, 2, inputs="gaussian")
    for (x, y), (same, drawn), (gauss, kept) in zip(plain, labels, noise):
        assert torch.equal(x, same)
        assert torch.equal(y, kept)
        assert 0.05 < (y == drawn).float().mean() < 0.25
        assert gauss.shape == x.shape
        assert abs(gauss.std() - 1) < 0.05
        assert drawn.dtype == y.dtype == torch.int64


def test_classes_of_generated_images_can_be_told_apart():
    images = generated_images(classes=5, rows=400, side=16, seed=2)
    x = images.images.reshape(400, -1).astype(float)
    means = np.stack([x[:200][images.labels[:200] == c].mean(0) for c in range(5)])
    guess = ((x[200:, None] - means) ** 2).sum(2).argmin(1)
    assert (guess == images.labels[200:]).mean() > 0.9


def test_too_few_images_or_none_asked_for():
    images = generated_images(rows=10, side=8)
    with pytest.raises(DataError, match="need 12 rows; generated has 10"):
        image_batches(images, 4, 3)
    with pytest.raises(ConfigError, match="0 batches"):
        image_batches(images, 4, 0)
    with pytest.raises(ConfigError, match="at least one class"):
        generated_images(classes=0)


SAMPLE = (
    Path(os.environ.get("RECNAS_SHARED", Path(__file__).parents[4].parent / "shared")) / "data/cifar10_train_sample.npz"
)


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the CIFAR-10 sample is not at hand")
def test_real_cifar_images_are_normalised_by_the_published_figures():
    images = load_images("cifar10", SAMPLE)
    assert isinstance(images, ImageSet)
    x, _ = image_batches(images, 2048, 1)[0]
    assert x.mean((0, 2, 3)).abs().max() < 0.05
    assert (x.std((0, 2, 3)) - 1).abs().max() < 0.05
