"""Facts about the models that come along, by name. No TensorFlow.

The networks themselves are in `tensorbow.models` and `tensorbow.cli.train.keras_networks`.
"""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Model:
    """A network that can be trained by name.

    Attributes:
      reads: the kind of its rows: an "image", the "characters" of a piece of text (it
        predicts each next one), or the "words" before a word.
      target: the test accuracy that counts as trained, 0 to 1.
      shape: shape of a made-up row: (height, width, channels), or (length,).
      classes: number of classes of made-up rows; for text, the size of the vocabulary.
      optimiser: default of `tensorbow train`.
      learning_rate: default of `tensorbow train`.
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
