"""Data sets for examples and the command line: files, MNIST, scikit-learn's digits, made-up
rows."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import zipfile
from typing import overload

import numpy as np

from tensorbow.cli import model_names

SYNTHETIC = "synthetic:"
_TEST_SHARE = 10  # one piece of a text in ten is for the test
_LARGE_ROWS = 6000
_SYNTHETIC_ROWS = 2048  # at most
_SYNTHETIC_BYTES = 2**28


@dataclasses.dataclass(frozen=True)
class Images:
    """A classified image data set.

    Attributes:
      name: what it is, for the reader.
      x_train: float32 in [0, 1], [rows, height, width, channels].
      y_train: int32, [rows].
      x_test: as x_train.
      y_test: as y_train.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def num_rows(self) -> int:
        """The number of training rows."""
        return len(self.x_train)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        height, width, channels = self.x_train.shape[1:]
        return height, width, channels

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return tuple(self.x_train.shape[1:])

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(max(self.y_train.max(), self.y_test.max())) + 1

    @property
    def summary(self) -> str:
        """The numbers of rows and their size, as text."""
        size = "x".join(map(str, self.shape))
        return f"{len(self.x_train)} training and {len(self.x_test)} test images of {size}"


@dataclasses.dataclass(frozen=True)
class Text:
    """Pieces of a text, and what comes next.

    Attributes:
      name: what it is, for the reader.
      x_train: int32, [rows, length]: numbers of characters or words.
      y_train: int32, the next characters, [rows, length], or the next word, [rows].
      x_test: as x_train.
      y_test: as y_train.
      vocabulary: what the numbers stand for; of words, the first is any that is not in it.
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    vocabulary: list[str]

    @property
    def num_rows(self) -> int:
        """The number of training rows."""
        return len(self.x_train)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return tuple(self.x_train.shape[1:])

    @property
    def classes(self) -> int:
        """Size of the vocabulary."""
        return len(self.vocabulary)

    @property
    def summary(self) -> str:
        """The numbers of rows and their size, as text."""
        what = "characters" if self.y_train.ndim == 2 else "words"
        return (
            f"{len(self.x_train)} training and {len(self.x_test)} test pieces of "
            f"{self.x_train.shape[1]} {what}, {self.classes} different ones"
        )


def _scaled(images: np.ndarray) -> np.ndarray:
    images = images if images.ndim == 4 else images[..., None]
    return images.astype(np.float32) / (255 if images.dtype == np.uint8 else 1)


def _from_arrays(name: str, arrays: list[np.ndarray]) -> Images:
    x_train, y_train, x_test, y_test = arrays
    return Images(
        name,
        _scaled(x_train),
        y_train.astype(np.int32).ravel(),
        _scaled(x_test),
        y_test.astype(np.int32).ravel(),
    )


def from_file(path: str | pathlib.Path) -> Images:
    """Reads an .npz file in the layout of Keras's MNIST.

    Args:
      path: a file with x_train, y_train, x_test, y_test; images [rows, height, width] or
        [rows, height, width, channels], uint8 (scaled to [0, 1]) or float.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: if the file does not hold these four arrays.
    """
    names = ["x_train", "y_train", "x_test", "y_test"]
    if not zipfile.is_zipfile(path) and pathlib.Path(path).exists():
        raise ValueError(f"{path} is not an .npz file; wanted one with {', '.join(names)}")
    with np.load(path) as file:
        missing = [name for name in names if name not in file]
        if missing:
            raise ValueError(
                f"{path} holds {', '.join(file.files) or 'nothing'}; wanted {', '.join(names)} "
                "(the layout of Keras's mnist.npz)"
            )
        arrays = [file[name] for name in names]
    for part, images, labels in (("train", *arrays[:2]), ("test", *arrays[2:])):
        if images.ndim not in (3, 4) or len(images) == 0 or labels.size != len(images):
            raise ValueError(
                f"{path}: x_{part} has shape {images.shape} and y_{part} {labels.shape}; wanted "
                "[rows, height, width] or [rows, height, width, channels] and [rows], rows > 0"
            )
    if arrays[0].shape[1:] != arrays[2].shape[1:]:
        raise ValueError(
            f"{path}: images of shape {arrays[0].shape[1:]} in x_train, of "
            f"{arrays[2].shape[1:]} in x_test; wanted the same in both"
        )
    return _from_arrays(pathlib.Path(path).name, arrays)


def mnist() -> Images | None:
    """Reads MNIST from Keras's cache; None if it is not there. Nothing is downloaded."""
    home = pathlib.Path(os.environ.get("KERAS_HOME", pathlib.Path.home() / ".keras"))
    try:
        return dataclasses.replace(from_file(home / "datasets" / "mnist.npz"), name="MNIST")
    except (OSError, ValueError):
        return None


def digits() -> Images:
    """Returns scikit-learn's 1797 handwritten digits of 8x8 pixels; every fifth is for the test.

    Raises:
      ImportError: if scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "No data: scikit-learn, which ships handwritten digits, is not installed. Fix: pip "
            "install scikit-learn, or give a file of your own."
        ) from error
    data = load_digits()
    images, labels = (data.images / 16).astype(np.float32), data.target
    test = np.arange(len(images)) % 5 == 0
    return _from_arrays(
        "scikit-learn's digits", [images[~test], labels[~test], images[test], labels[test]]
    )


def large_digits(rows: int = _LARGE_ROWS, test: int = _LARGE_ROWS // 6) -> Images:
    """Makes 28x28 pixels of scikit-learn's digits, each several times: turned, moved, resized.

    The test images are made of digits that no training image is made of.

    Args:
      rows, test: how many to make.

    Raises:
      ImportError: if scikit-learn is not installed.
    """
    small, random = digits(), np.random.default_rng(0)

    def made(images: np.ndarray, labels: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        which = np.arange(count) % len(images)
        turned, size = random.uniform(-0.15, 0.15, count), random.uniform(2.6, 3.0, count)
        moved = 13.5 + random.uniform(-1.5, 1.5, (2, count))
        grid = np.mgrid[:28, :28][:, None] - moved[..., None, None]
        cos, sin = (f(turned)[:, None, None] / size[:, None, None] for f in (np.cos, np.sin))
        # The source of a pixel: its position between pixels of the small image.
        y, x = cos * grid[0] - sin * grid[1] + 3.5, sin * grid[0] + cos * grid[1] + 3.5
        padded = np.pad(images[..., 0], ((0, 0), (1, 2), (1, 2)))
        y, x = np.clip(y + 1, 0, 9), np.clip(x + 1, 0, 9)
        up, left = y.astype(int), x.astype(int)
        down, right = y - up, x - left
        n = which[:, None, None]
        above = padded[n, up, left] * (1 - right) + padded[n, up, left + 1] * right
        below = padded[n, up + 1, left] * (1 - right) + padded[n, up + 1, left + 1] * right
        enlarged = above * (1 - down) + below * down
        return enlarged[..., None].astype(np.float32), labels[which]

    train = made(small.x_train, small.y_train, rows)
    return Images("digits made of scikit-learn's", *train, *made(small.x_test, small.y_test, test))


def from_folder(path: pathlib.Path) -> Images:
    """Reads a folder of images with one subfolder for each class; see `_image_folder.read`."""
    from tensorbow.datasets import _image_folder  # which needs TensorFlow

    return _from_arrays(path.name, _image_folder.read(path))


def from_text(path: pathlib.Path, model: str) -> Text:
    """Reads a text file for a model that reads characters or words.

    The last tenth is for the test.

    Args:
      path: of a UTF-8 file.
      model: a key of `tensorbow.cli.model_names.MODELS` that reads text.

    Raises:
      ValueError: if the text is too short, or not UTF-8.
    """
    facts = model_names.MODELS[model]
    length = facts.shape[0]
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text in UTF-8: {error}") from error
    if facts.reads == "characters":
        vocabulary = sorted(set(text))
        tokens: list[str] = list(text)
    else:
        tokens = re.findall(r"\w+|[^\w\s]", text.lower())
        words, counts = np.unique(tokens, return_counts=True)
        frequent = words[np.argsort(-counts, kind="stable")][: facts.classes - 1]
        vocabulary = ["", *map(str, frequent)]
    numbers = {token: k for k, token in enumerate(vocabulary)}
    ids = np.array([numbers.get(token, 0) for token in tokens], np.int32)
    pieces = (len(ids) - 1) // length if facts.reads == "characters" else len(ids) - length
    test = pieces // _TEST_SHARE
    if test < 1:
        raise ValueError(
            f"{path} has {len(ids)} {facts.reads}; wanted at least {20 * length}, of which "
            f"{model} reads {length} at a time"
        )
    if facts.reads == "characters":
        x = ids[: pieces * length].reshape(pieces, length)
        y = ids[1 : pieces * length + 1].reshape(pieces, length)
    else:
        x = np.lib.stride_tricks.sliding_window_view(ids[:-1], length)[:pieces]
        y = ids[length:]
    x = np.ascontiguousarray(x)
    return Text(path.name, x[:-test], y[:-test], x[-test:], y[-test:], vocabulary)


def synthetic(
    model: str, shape: tuple[int, ...] = (), classes: int = 0, rows: int = 0
) -> Images | Text:
    """Makes random rows of a model's kind, with labels that follow from them.

    Args:
      model: a key of `tensorbow.cli.model_names.MODELS`.
      shape: of a row; () is the model's usual one.
      classes: or the size of the vocabulary; 0 is the usual number.
      rows: to train on; 0 is a number that takes little memory. A tenth as many are for
        the test.
    """
    facts = model_names.MODELS[model]
    shape, classes = shape or facts.shape, classes or facts.classes
    size = int(np.prod(shape))
    rows = rows or max(64, min(_SYNTHETIC_ROWS, _SYNTHETIC_BYTES // (4 * size)))
    test = max(1, rows // 10)
    random = np.random.default_rng(0)
    name = "made-up rows"
    if facts.reads == "image":
        x = random.random((rows + test, *shape), np.float32)
        labels = _labels(x.reshape(len(x), -1) - np.float32(0.5), classes, random)
        return Images(name, x[:rows], labels[:rows], x[rows:], labels[rows:])
    ids = random.integers(0, classes, (rows + test, shape[0])).astype(np.int32)
    # The next character, or word, is a function of one before it.
    after = random.permutation(classes).astype(np.int32)
    y = after[ids] if facts.reads == "characters" else after[ids[:, 0]]
    words = [str(k) for k in range(classes)]
    return Text(name, ids[:rows], y[:rows], ids[rows:], y[rows:], words)


def _labels(x: np.ndarray, classes: int, random: np.random.Generator) -> np.ndarray:
    """Returns, for each row, the random direction of `classes` that it points to most."""
    directions = random.standard_normal((min(x.shape[1], 4096), classes)).astype(np.float32)
    return np.argmax(x[:, : len(directions)] @ directions, axis=1).astype(np.int32)


def _made_digits(model: str) -> Images | Text:
    try:
        return large_digits()
    except ImportError:
        return synthetic(model, rows=_LARGE_ROWS)


def _parsed(text: str) -> tuple[tuple[int, ...], int]:
    """Returns shape and classes of "synthetic:224x224x3:1000"."""
    match = re.fullmatch(r"synthetic:(\d+(?:x\d+)*):(\d+)", text)
    numbers = [] if match is None else [int(n) for n in match[1].split("x")]
    if match is None or min(numbers) < 1 or int(match[2]) < 2:
        raise ValueError(
            f"got the data {text!r}; wanted synthetic:SHAPE:CLASSES, such as "
            "synthetic:224x224x3:1000 (images) or synthetic:64:65 (text: length, vocabulary)"
        )
    return tuple(numbers), int(match[2])


@overload
def load(path: str | pathlib.Path | None = None) -> Images: ...


@overload
def load(path: str | pathlib.Path | None, model: str) -> Images | Text: ...


def load(path: str | pathlib.Path | None = None, model: str = "lenet") -> Images | Text:
    """Returns the data of `path` for a model.

    Args:
      path: "synthetic:SHAPE:CLASSES"; a folder of images; an .npz file in the layout of Keras's
        MNIST; for models that read text, a text file. Without one: MNIST if Keras has it in its
        cache, else `large_digits`, else made-up rows; text has no such default.
      model: the name of the model that the data are for.

    Raises:
      OSError: if a file is not there.
      ValueError: if the data are not what the model reads.
      MemoryError: if the images of a folder do not fit into memory.
    """
    reads = model_names.MODELS[model].reads
    if path is not None and str(path).startswith(SYNTHETIC):
        from tensorbow.models import check_shape

        shape, classes = _parsed(str(path))
        check_shape(model, shape)
        return synthetic(model, shape, classes)
    if reads != "image":
        if path is None:
            raise ValueError(
                f"{model} reads {reads}: wanted --data FILE, a text in UTF-8, or "
                "--data synthetic:LENGTH:VOCABULARY"
            )
        if pathlib.Path(path).is_dir():
            raise ValueError(f"{model} reads {reads}; got the folder {path}, wanted a text file")
        return from_text(pathlib.Path(path), model)
    if path is None:
        return mnist() or _made_digits(model)
    if pathlib.Path(path).is_dir():
        return from_folder(pathlib.Path(path))
    return from_file(path)
