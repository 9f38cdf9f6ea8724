"""The classifiers of `tensorbow.models`, written in Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

layers = keras.layers


def _logistic(x: Any) -> Any:
    return layers.Flatten()(x)


def _lenet(x: Any) -> Any:
    for filters in (32, 64):
        x = layers.Conv2D(filters, 5, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(padding="same")(x)
    return layers.Dense(512, activation="relu")(layers.Flatten()(x))


def _resnet(blocks: int) -> Callable[[Any], Any]:
    """The CIFAR residual network of 6 * blocks + 2 layers (He et al., 2015, section 4.2)."""

    def conv_bn(x: Any, filters: int, size: int, stride: int = 1) -> Any:
        x = layers.Conv2D(filters, size, stride, padding="same", use_bias=False)(x)
        return layers.BatchNormalization(momentum=0.9)(x)

    def network(x: Any) -> Any:
        x = layers.ReLU()(conv_bn(x, 16, 3))
        for stage, filters in enumerate((16, 32, 64)):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                y = layers.ReLU()(conv_bn(x, filters, 3, stride))
                y = conv_bn(y, filters, 3)
                if stride != 1:
                    x = conv_bn(x, filters, 1, stride)
                x = layers.ReLU()(layers.Add()([x, y]))
        return layers.GlobalAveragePooling2D()(x)

    return network


_NETWORKS = {
    "logistic": _logistic,
    "lenet": _lenet,
    "resnet20": _resnet(3),
    "resnet32": _resnet(5),
}


def build(model: str, image_shape: tuple[int, int, int], classes: int = 10) -> keras.Model:
    """A classifier that returns logits, [rows, classes]; not compiled.

    Args:
      model: "logistic", "lenet", "resnet20" or "resnet32".
      image_shape: (height, width, channels).
      classes: number of classes.

    Raises:
      ValueError: for an unknown model.
    """
    if model not in _NETWORKS:
        raise ValueError(f"unknown model {model!r}; wanted one of {', '.join(_NETWORKS)}")
    inputs = keras.Input(image_shape)
    return keras.Model(inputs, layers.Dense(classes)(_NETWORKS[model](inputs)))
