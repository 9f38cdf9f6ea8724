"""Images in files: a folder with one subfolder for each class."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf

from tensorbow._session import memory

_IMAGE_FILES = {".bmp", ".gif", ".jpeg", ".jpg", ".png"}
_TEST_SHARE = 5  # one image of a class in five is for the test
_ROWS = 64  # decoded at once


def read(path: pathlib.Path) -> list[np.ndarray]:
    """Reads a folder of images with one subfolder for each class, by `tf.data`.

    Args:
      path: its subfolders are the classes, in alphabetical order; or it has two, "train" and
        "test", whose subfolders are. Without those, every fifth image of a class is for the
        test. Files are BMP, GIF (the first frame), JPEG or PNG, of any size: all become RGB
        images of the size of the first one.

    Returns:
      Training images, uint8 [rows, height, width, 3], and classes, int32 [rows]; then the same
      for the test.

    Raises:
      ValueError: if there are no such images.
      MemoryError: if they do not fit into memory.
    """
    inside = sorted(entry.name for entry in path.iterdir() if entry.is_dir())
    if {"train", "test"} <= set(inside):
        parts = [_files_by_class(path / "train"), _files_by_class(path / "test")]
        if list(parts[0]) != list(parts[1]):
            raise ValueError(
                f"{path}: the classes are {', '.join(parts[0])} in train, {', '.join(parts[1])} "
                "in test; wanted the same in both"
            )
    else:
        found = _files_by_class(path)
        parts = [
            {
                name: [f for k, f in enumerate(files) if k % _TEST_SHARE]
                for name, files in found.items()
            },
            {name: files[::_TEST_SHARE] for name, files in found.items()},
        ]
    listed = [
        [(file, label) for label, files in enumerate(part.values()) for file in files]
        for part in parts
    ]
    if not all(listed):
        raise ValueError(
            f"{path}: got {len(listed[0])} training and {len(listed[1])} test images; wanted some "
            "of both: one subfolder for each class, with at least two images"
        )
    arrays = _decoded(path, [str(file) for file, _ in [*listed[0], *listed[1]]])
    count = len(listed[0])
    labels = [np.array([label for _, label in part], np.int32) for part in listed]
    return [arrays[:count], labels[0], arrays[count:], labels[1]]


def _files_by_class(path: pathlib.Path) -> dict[str, list[pathlib.Path]]:
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir())
    files = {
        folder.name: sorted(f for f in folder.iterdir() if f.suffix.lower() in _IMAGE_FILES)
        for folder in folders
    }
    return {name: found for name, found in files.items() if found}


def _decoded(path: pathlib.Path, files: list[str]) -> np.ndarray:
    """Returns the images of these files, uint8, all of the size of the first one."""

    def decode(file: tf.Tensor) -> tf.Tensor:
        return tf.io.decode_image(tf.io.read_file(file), channels=3, expand_animations=False)

    tf1 = tf.compat.v1
    graph = tf.Graph()  # works with eager execution and without
    with graph.as_default(), tf1.Session(graph=graph) as session:
        try:
            height, width, _ = session.run(decode(tf.constant(files[0]))).shape
            needed = len(files) * int(height) * int(width) * 3 * 5  # as uint8 and as float32
            there = memory.available_bytes()
            if there is not None and needed > there:
                raise MemoryError(
                    f"{path}: {len(files)} images of {height}x{width} need "
                    f"{memory.size(needed)}, and this process may use {memory.size(there)} more. "
                    "Make the images smaller, or take fewer."
                )

            def resized(file: tf.Tensor) -> tf.Tensor:
                image = decode(file)
                image.set_shape([None, None, 3])
                scaled = tf.image.resize(image, [height, width], antialias=True)
                return tf.saturate_cast(tf.round(scaled), tf.uint8)

            rows = tf.data.Dataset.from_tensor_slices(files)
            rows = rows.map(resized, num_parallel_calls=tf.data.AUTOTUNE).batch(_ROWS)
            batch = tf1.data.make_one_shot_iterator(rows).get_next()
            arrays = np.empty((len(files), height, width, 3), np.uint8)
            for begin in range(0, len(files), _ROWS):
                arrays[begin : begin + _ROWS] = session.run(batch)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(f"{path}: an image cannot be decoded: {error.message}") from error
    return arrays
