"""Networks that read text: numbers of characters or words, int32 [rows, length].

The number of classes is that of different characters or words.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorbow.models._layers import Layers, Tensor

WIDTH = 128  # of vectors that stand for characters
HEADS, BLOCKS = 4, 2  # of the transformer
LSTM_UNITS = 256
WORD_WIDTH = 64


def lstm(x: Tensor, classes: int, layers: Layers, training: bool) -> Tensor:
    """Predicts every next character; logits are [rows, length, classes]."""
    vectors = tf.gather(layers.vectors(classes, WIDTH, "characters"), x)
    return layers.dense(layers.lstm(vectors, LSTM_UNITS, "lstm", True), classes, "logits")


def transformer_block(
    x: Tensor, layers: Layers, name: str, heads: int, causal: bool = True, normalised: bool = True
) -> Tensor:
    """Makes attention and two dense layers, each added to its input; [rows, tokens, width].

    Args:
      x: as the result; tokens and width are static.
      layers: has the variables.
      name: of the variables.
      heads: of the attention.
      causal: whether a token sees only itself and those before it.
      normalised: whether what each part is given is normalised (pre-norm).
    """

    def given(part: str) -> Tensor:
        return layers.layer_norm(x, f"{name}/{part}_norm") if normalised else x

    x = x + layers.attention(given("attention"), heads, f"{name}/attention", causal)
    width = int(x.shape[-1])
    wide = tf.nn.relu(layers.dense(given("wide"), 4 * width, f"{name}/wide"))
    return x + layers.dense(wide, width, f"{name}/narrow")


def transformer(x: Tensor, classes: int, layers: Layers, training: bool) -> Tensor:
    """Makes a small decoder-only transformer that predicts every next character.

    Logits are [rows, length, classes].
    """
    length = int(x.shape[1])
    positions = layers.vectors(length, WIDTH, "positions")
    x = tf.gather(layers.vectors(classes, WIDTH, "characters"), x) + positions
    for k in range(BLOCKS):
        x = transformer_block(x, layers, f"block{k}", HEADS)
    return layers.dense(layers.layer_norm(x, "norm"), classes, "logits")


def mean_of_vectors(x: Tensor, words: int, width: int, classes: int, layers: Layers) -> Tensor:
    """Classifies rows of words by the mean of their vectors; their gradients are sparse."""
    mean = tf.reduce_mean(tf.gather(layers.vectors(words, width, "table"), x), 1)
    return layers.dense(mean, classes, "logits")


def embedding(x: Tensor, classes: int, layers: Layers, training: bool) -> Any:
    """Predicts the next word from the bag of words before it; logits are [rows, classes]."""
    return mean_of_vectors(x, classes, WORD_WIDTH, classes, layers)
