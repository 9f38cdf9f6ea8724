"""The networks of `tensorbow.models`, written in Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tensorbow.cli import model_names
from tensorbow.models import check_shape
from tensorbow.models.images import MOBILENET, SMALL, VGG16
from tensorbow.models.text import BLOCKS, HEADS, LSTM_UNITS, WIDTH, WORD_WIDTH

layers = keras.layers


def _conv_bn(x: Any, filters: int, size: int, stride: int = 1) -> Any:
    x = layers.Conv2D(filters, size, stride, padding="same", use_bias=False)(x)
    return layers.BatchNormalization(momentum=0.9)(x)


def _logistic(x: Any, classes: int) -> Any:
    return layers.Flatten()(x)


def _lenet(x: Any, classes: int) -> Any:
    for filters in (32, 64):
        x = layers.Conv2D(filters, 5, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(padding="same")(x)
    return layers.Dense(512, activation="relu")(layers.Flatten()(x))


def _resnet(blocks: int) -> Callable[[Any, int], Any]:
    """Makes the CIFAR residual network of 6 * blocks + 2 layers (He et al., 2015, section 4.2)."""

    def network(x: Any, classes: int) -> Any:
        x = layers.ReLU()(_conv_bn(x, 16, 3))
        for stage, filters in enumerate((16, 32, 64)):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                y = layers.ReLU()(_conv_bn(x, filters, 3, stride))
                y = _conv_bn(y, filters, 3)
                if stride != 1:
                    x = _conv_bn(x, filters, 1, stride)
                x = layers.ReLU()(layers.Add()([x, y]))
        return layers.GlobalAveragePooling2D()(x)

    return network


def _resnet50(x: Any, classes: int) -> Any:
    """Makes the network of `tensorbow.models.images.resnet50`."""
    if x.shape[1] <= SMALL:
        x = layers.ReLU()(_conv_bn(x, 64, 3))
    else:
        x = layers.ReLU()(_conv_bn(x, 64, 7, 2))
        x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for stage, (filters, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = layers.ReLU()(_conv_bn(x, filters, 1))
            y = layers.ReLU()(_conv_bn(y, filters, 3, stride))
            y = _conv_bn(y, 4 * filters, 1)
            if block == 0:
                x = _conv_bn(x, 4 * filters, 1, stride)
            x = layers.ReLU()(layers.Add()([x, y]))
    return layers.GlobalAveragePooling2D()(x)


def _vgg16(x: Any, classes: int) -> Any:
    """Makes the network of `tensorbow.models.images.vgg16`."""
    for units in VGG16:
        if units == "pool":
            x = layers.MaxPooling2D(padding="same")(x)
        else:
            x = layers.ReLU()(_conv_bn(x, units, 3))
    x = layers.Flatten()(x)
    if x.shape[1] > 512:
        for _ in range(2):
            x = layers.Dense(4096, activation="relu")(x)
    return x


def _mobilenet(x: Any, classes: int) -> Any:
    """Makes the network of `tensorbow.models.images.mobilenet`."""
    x = layers.ReLU()(_conv_bn(x, 32, 3, 1 if x.shape[1] <= SMALL else 2))
    for filters, stride in MOBILENET:
        x = layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
        x = layers.ReLU()(_conv_bn(x, filters, 1))
    return layers.GlobalAveragePooling2D()(x)


def _lstm(x: Any, classes: int) -> Any:
    return layers.LSTM(LSTM_UNITS, return_sequences=True)(layers.Embedding(classes, WIDTH)(x))


def _transformer(x: Any, classes: int) -> Any:
    """Makes the network of `tensorbow.models.text.transformer`, of layers that load without
    TensorBow."""
    positions = keras.ops.cumsum(keras.ops.ones_like(x), axis=1) - 1
    x = layers.Add()(
        [layers.Embedding(classes, WIDTH)(x), layers.Embedding(x.shape[1], WIDTH)(positions)]
    )
    for _ in range(BLOCKS):
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        attention = layers.MultiHeadAttention(HEADS, WIDTH // HEADS)
        x = layers.Add()([x, attention(y, y, use_causal_mask=True)])
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        y = layers.Dense(WIDTH)(layers.Dense(4 * WIDTH, activation="relu")(y))
        x = layers.Add()([x, y])
    return layers.LayerNormalization(epsilon=1e-5)(x)


def _embedding(x: Any, classes: int) -> Any:
    return layers.GlobalAveragePooling1D()(layers.Embedding(classes, WORD_WIDTH)(x))


_NETWORKS: dict[str, Callable[[Any, int], Any]] = {
    "logistic": _logistic,
    "lenet": _lenet,
    "resnet20": _resnet(3),
    "resnet32": _resnet(5),
    "resnet50": _resnet50,
    "vgg16": _vgg16,
    "mobilenet": _mobilenet,
    "lstm": _lstm,
    "transformer": _transformer,
    "embedding": _embedding,
}


def build(model: str, shape: tuple[int, ...], classes: int = 10) -> keras.Model:
    """Builds a network that returns logits, [rows, classes] or [rows, length, classes]; not
    compiled.

    Args:
      model: a key of `tensorbow.cli.model_names.MODELS`.
      shape: of a row: (height, width, channels) of images, (length,) of text.
      classes: number of classes; of text, the size of the vocabulary.

    Raises:
      ValueError: for an unknown model, or a shape of the wrong kind.
    """
    if model not in _NETWORKS:
        raise ValueError(f"unknown model {model!r}; wanted one of {', '.join(_NETWORKS)}")
    check_shape(model, shape)
    reads = model_names.MODELS[model].reads
    inputs = keras.Input(shape, dtype="float32" if reads == "image" else "int32")
    return keras.Model(inputs, layers.Dense(classes)(_NETWORKS[model](inputs, classes)))
