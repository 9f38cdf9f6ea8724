"""Images for the benchmarks that evaluate the loss: a file, or scikit-learn's digits."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np

from tensorbow import datasets


def fit(images: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Repeats and cuts images [rows, height, width, channels] until they have `shape`."""
    for axis, wanted in enumerate(shape, start=1):
        repeats = [1] * images.ndim
        repeats[axis] = -(-wanted // images.shape[axis])
        images = np.tile(images, repeats).take(range(wanted), axis=axis)
    return images


def images(path: pathlib.Path | None, shape: tuple[int, int, int]) -> datasets.Images:
    """Returns the data of `path`, else the digits; images that are too small are repeated."""
    found = datasets.digits() if path is None else datasets.from_file(path)
    return dataclasses.replace(
        found, x_train=fit(found.x_train, shape), x_test=fit(found.x_test, shape)
    )
