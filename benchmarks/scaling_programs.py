"""Programs whose tasks scaling.py measures: `python benchmarks/scaling_programs.py NAME ROWS`.

Each trains until it is ended, in a stock session, on random rows.
"""

from __future__ import annotations

import sys
from typing import Any

RATE = 0.01


def resnet50(layers: Any) -> tuple[Any, Any]:
    """Returns images and logits of ResNet-50 (He et al., 2015, table 1): 25.6 million
    parameters."""
    import tensorflow as tf

    def conv_bn(x: Any, filters: int, size: int, name: str, stride: int = 1) -> Any:
        return layers.batch_norm(layers.conv(x, filters, size, name, stride), name, True)

    images = tf.compat.v1.placeholder(tf.float32, [None, 224, 224, 3])
    x = tf.nn.relu(conv_bn(images, 64, 7, "stem", 2))
    x = tf.nn.max_pool2d(x, 3, 2, "SAME")
    for stage, blocks in enumerate((3, 4, 6, 3)):
        filters = 64 << stage
        for block in range(blocks):
            name = f"stage{stage}/block{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            y = tf.nn.relu(conv_bn(x, filters, 1, f"{name}/a", stride))
            y = tf.nn.relu(conv_bn(y, filters, 3, f"{name}/b"))
            y = conv_bn(y, 4 * filters, 1, f"{name}/c")
            if block == 0:
                x = conv_bn(x, 4 * filters, 1, f"{name}/shortcut", stride)
            x = tf.nn.relu(x + y)
    return images, layers.dense(tf.reduce_mean(x, [1, 2]), 1000, "logits")


def dense(layers: Any) -> tuple[Any, Any]:
    """Returns 25 million parameters in layers of 4,096 units."""
    import tensorflow as tf

    images = tf.compat.v1.placeholder(tf.float32, [None, 784])
    x = images
    for k, units in enumerate((4096, 4096, 1216)):
        x = tf.nn.relu(layers.dense(x, units, f"dense{k}"))
    return images, layers.dense(x, 10, "logits")


PROGRAMS = {"resnet50": resnet50, "dense": dense}


def train(name: str, rows: int) -> None:
    import numpy as np
    import tensorflow as tf

    from tensorbow import models

    tf1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        images, logits = PROGRAMS[name](models.Layers(1, True, tf.float32))
        labels = tf1.placeholder(tf.int32, [None])
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
            train_op = tf1.train.GradientDescentOptimizer(RATE).minimize(loss)
        init = tf1.global_variables_initializer()
    random = np.random.default_rng(0)
    feeds = {
        images: random.random((rows, *images.shape[1:]), np.float32),
        labels: random.integers(0, 10, rows),
    }
    with tf1.Session(graph=graph) as session:
        session.run(init)
        while True:
            session.run(train_op, feeds)


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]))
