"""Image data sets for the command line: a file, MNIST, or what scikit-learn ships."""

from __future__ import annotations

import dataclasses
import pathlib
import socket
import zipfile

import numpy as np


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
    def summary(self) -> str:
        """How much it is, for the reader."""
        return (
            f"{len(self.x_train)} training and {len(self.x_test)} test images of "
            f"{'x'.join(map(str, self.image_shape))}"
        )

    @property
    def num_rows(self) -> int:
        """Of the training set."""
        return len(self.x_train)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width, channels."""
        return tuple(self.x_train.shape[1:])

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(max(self.y_train.max(), self.y_test.max())) + 1


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
    """MNIST from Keras's cache or, with a network, from Keras's server; else None."""
    import keras

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(10)
    try:
        (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    except Exception:  # no network, no cache: whatever Keras says of it
        return None
    finally:
        socket.setdefaulttimeout(before)
    return _from_arrays("MNIST", [x_train, y_train, x_test, y_test])


def digits() -> Images:
    """scikit-learn's 1797 handwritten digits of 8x8 pixels; every fifth is for the test.

    Raises:
      ImportError: if scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "No data: MNIST is neither cached nor downloadable, and scikit-learn, which ships "
            "handwritten digits, is not installed. Fix: --data FILE.npz, or pip install "
            "scikit-learn."
        ) from error
    data = load_digits()
    images, labels = (data.images / 16).astype(np.float32), data.target
    test = np.arange(len(images)) % 5 == 0
    return _from_arrays(
        "scikit-learn's digits", [images[~test], labels[~test], images[test], labels[test]]
    )


def load(path: str | pathlib.Path | None = None) -> Images:
    """The data of `path`; without one MNIST if it can be had, else the digits."""
    if path is not None:
        return from_file(path)
    return mnist() or digits()
