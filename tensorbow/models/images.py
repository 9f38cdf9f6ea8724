"""Networks that classify images, [rows, height, width, channels]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tensorbow.models._layers import Layers, Tensor

Network = Callable[[Any, int, Layers, bool], Any]
"""Given inputs, the number of classes, layers, and whether it is being trained: logits."""

SMALL = 64  # pixels; networks made for larger images begin without reducing smaller ones
VGG16: list[Any] = [64, 64, "pool", 128, 128, "pool", 256, 256, 256, "pool"]
VGG16 += [512, 512, 512, "pool", 512, 512, 512, "pool"]
# Output channels and stride of MobileNet's separable convolutions.
MOBILENET = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
MOBILENET += [(512, 1)] * 5 + [(1024, 2), (1024, 1)]


def _flat(x: Tensor) -> Tensor:
    return tf.reshape(x, [-1, int(x.shape[1] * x.shape[2] * x.shape[3])])


def logistic(x: Tensor, classes: int, layers: Layers, training: bool) -> Tensor:
    """Makes a linear layer on the pixels."""
    return layers.dense(_flat(x), classes, "logits")


def lenet(x: Tensor, classes: int, layers: Layers, training: bool) -> Tensor:
    """Makes two convolutions and a hidden layer."""
    for k, filters in enumerate((32, 64)):
        x = tf.nn.relu(layers.bias(layers.conv(x, filters, 5, f"conv{k}"), f"conv{k}"))
        x = tf.nn.max_pool2d(x, 2, 2, "SAME")
    x = tf.nn.relu(layers.dense(_flat(x), 512, "dense"))
    return layers.dense(x, classes, "logits")


def _conv_bn(
    x: Tensor, filters: int, size: int, name: str, layers: Layers, training: bool, stride: int = 1
) -> Tensor:
    return layers.batch_norm(layers.conv(x, filters, size, name, stride), name, training)


def resnet(blocks: int) -> Network:
    """Returns the CIFAR residual network of 6 * blocks + 2 layers (He et al., 2015, section
    4.2)."""

    def network(x: Tensor, classes: int, layers: Layers, training: bool) -> Tensor:
        def conv_bn(x: Tensor, filters: int, size: int, name: str, stride: int = 1) -> Tensor:
            return _conv_bn(x, filters, size, name, layers, training, stride)

        x = tf.nn.relu(conv_bn(x, 16, 3, "stem"))
        for stage, filters in enumerate((16, 32, 64)):
            for block in range(blocks):
                name = f"stage{stage}/block{block}"
                stride = 2 if stage > 0 and block == 0 else 1
                y = tf.nn.relu(conv_bn(x, filters, 3, f"{name}/a", stride))
                y = conv_bn(y, filters, 3, f"{name}/b")
                if stride != 1:
                    x = conv_bn(x, filters, 1, f"{name}/shortcut", stride)
                x = tf.nn.relu(x + y)
        return layers.dense(tf.reduce_mean(x, [1, 2]), classes, "logits")

    return network


def resnet50(x: Tensor, classes: int, layers: Layers, training: bool) -> Tensor:
    """Makes the residual network of 50 layers (He et al., 2015, table 1).

    Images of at most `SMALL` pixels are not reduced before the first block.
    """

    def conv_bn(x: Tensor, filters: int, size: int, name: str, stride: int = 1) -> Tensor:
        return _conv_bn(x, filters, size, name, layers, training, stride)

    if x.shape[1] <= SMALL:
        x = tf.nn.relu(conv_bn(x, 64, 3, "stem"))
    else:
        x = tf.nn.max_pool2d(tf.nn.relu(conv_bn(x, 64, 7, "stem", 2)), 3, 2, "SAME")
    for stage, (filters, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            name = f"stage{stage}/block{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            y = tf.nn.relu(conv_bn(x, filters, 1, f"{name}/a"))
            y = tf.nn.relu(conv_bn(y, filters, 3, f"{name}/b", stride))
            y = conv_bn(y, 4 * filters, 1, f"{name}/c")
            if block == 0:
                x = conv_bn(x, 4 * filters, 1, f"{name}/shortcut", stride)
            x = tf.nn.relu(x + y)
    return layers.dense(tf.reduce_mean(x, [1, 2]), classes, "logits")


def convolutions(channels: Sequence[Any], separable: bool = False) -> Network:
    """Makes plain layers with ReLU, then the mean over the image; "pool" halves it.

    Args:
      channels: of each layer, or "pool".
      separable: whether all but the first are a depthwise convolution and one of 1×1.
    """

    def network(x: Tensor, classes: int, layers: Layers, training: bool) -> Tensor:
        for k, units in enumerate(channels):
            name = f"conv{k}"
            if units == "pool":
                x = tf.nn.max_pool2d(x, 2, 2, "SAME")
            elif separable and k > 0:
                x = tf.nn.relu(layers.depthwise(x, 3, name))
                x = tf.nn.relu(layers.conv(x, units, 1, f"{name}/point"))
            else:
                x = tf.nn.relu(layers.conv(x, units, 3, name))
        return layers.dense(tf.reduce_mean(x, [1, 2]), classes, "logits")

    return network


def vgg16(x: Tensor, classes: int, layers: Layers, training: bool) -> Tensor:
    """Makes configuration D of Simonyan and Zisserman (2014), with batch normalisation.

    Images that five poolings leave one pixel of (32×32) need no hidden dense layers.
    """
    for k, units in enumerate(VGG16):
        if units == "pool":
            x = tf.nn.max_pool2d(x, 2, 2, "SAME")
        else:
            x = tf.nn.relu(_conv_bn(x, units, 3, f"conv{k}", layers, training))
    x = _flat(x)
    if x.shape[1] > 512:
        for k in range(2):
            x = tf.nn.relu(layers.dense(x, 4096, f"dense{k}"))
    return layers.dense(x, classes, "logits")


def mobilenet(x: Tensor, classes: int, layers: Layers, training: bool) -> Tensor:
    """Makes MobileNet (Howard et al., 2017, table 1).

    Images of at most `SMALL` pixels are not reduced by the first convolution.
    """
    stride = 1 if x.shape[1] <= SMALL else 2
    x = tf.nn.relu(_conv_bn(x, 32, 3, "stem", layers, training, stride))
    for k, (filters, stride) in enumerate(MOBILENET):
        depth, point = f"block{k}/depth", f"block{k}/point"
        x = layers.batch_norm(layers.depthwise(x, 3, depth, stride), depth, training)
        x = tf.nn.relu(_conv_bn(tf.nn.relu(x), filters, 1, point, layers, training))
    return layers.dense(tf.reduce_mean(x, [1, 2]), classes, "logits")
