"""The models that come along: what the command line, its data sets and the benchmarks know of
them. The networks themselves are in `tensorbow.models` and `tensorbow.cli.train.keras_networks`."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Model:
    """A network that can be trained by name.

    Attributes:
      reads: what a row of its data is: an "image", the "characters" of a piece of text
        (each is followed by the next one), or the "words" before a word.
      target: the test accuracy that counts as trained, 0 to 1.
      shape: of a row where data are made up: (height, width, channels), or (length,).
      classes: likewise; of text, the size of the vocabulary.
      optimiser: what `tensorbow train` takes if nothing is said.
      learning_rate: likewise.
    """

    reads: Literal["image", "characters", "words"]
    target: float
    shape: tuple[int, ...]
    classes: int = 10
    optimiser: Literal["sgd", "momentum", "adam"] = "momentum"
    learning_rate: float = 0.02


_MNIST, _CIFAR = (28, 28, 1), (32, 32, 3)

MODELS: dict[str, Model] = {
    "logistic": Model("image", 0.9, _MNIST),
    "lenet": Model("image", 0.98, _MNIST),
    "resnet20": Model("image", 0.6, _CIFAR),
    "resnet32": Model("image", 0.6, _CIFAR),
    "resnet50": Model("image", 0.6, _CIFAR),
    "vgg16": Model("image", 0.6, _CIFAR, learning_rate=0.005),  # it has no normalisation
    "mobilenet": Model("image", 0.5, _CIFAR),
    "lstm": Model("characters", 0.5, (64,), 65, "adam", 0.003),
    "transformer": Model("characters", 0.5, (64,), 65, "adam", 0.002),
    "embedding": Model("words", 0.07, (8,), 5000),
}
