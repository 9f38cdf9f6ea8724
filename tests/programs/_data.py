"""Small data for the programs: real digits, a corpus, points, episodes."""

from __future__ import annotations

import functools

import numpy as np
from sklearn.datasets import load_digits


@functools.cache
def digits():
    """Returns 8x8 images in [0, 1], rows [n, 64], and labels: ((x, y), (x_test, y_test))."""
    data = load_digits()
    order = np.random.RandomState(0).permutation(len(data.target))
    x = (data.data[order] / 16).astype(np.float32)
    y = data.target[order].astype(np.int32)
    return (x[:1500], y[:1500]), (x[1500:], y[1500:])


def batches(x, y, size, epochs, seed):
    """Yields shuffled batches of equal size."""
    random = np.random.RandomState(seed)
    for _ in range(epochs):
        order = random.permutation(len(x))
        for begin in range(0, len(x) - size + 1, size):
            rows = order[begin : begin + size]
            yield x[rows], y[rows]


def linear_rows(count, columns, seed):
    """Returns inputs, and targets of a linear law with a little noise."""
    random = np.random.RandomState(seed)
    x = random.randn(count, columns).astype(np.float32)
    law = np.linspace(-1, 1, columns).astype(np.float32)
    return x, (x @ law + 0.5 + 0.05 * random.randn(count)).astype(np.float32)


@functools.cache
def corpus(length=6000, groups=6, words_per_group=5):
    """Returns word ids; words of one group stand together, so neighbours show the group."""
    random = np.random.RandomState(0)
    ids = []
    while len(ids) < length:
        group = random.randint(groups)
        ids += list(group * words_per_group + random.randint(words_per_group, size=8))
    return np.array(ids[:length], np.int32)


@functools.cache
def ring_text(length=4000):
    """Returns characters of a text that repeats itself with small changes."""
    random = np.random.RandomState(0)
    words = ["many ", "small ", "batches ", "train ", "well "]
    text = "".join(words[i % 5] if random.rand() < 0.95 else words[0] for i in range(length // 5))
    alphabet = sorted(set(text))
    return np.array([alphabet.index(c) for c in text[:length]], np.int32), len(alphabet)


class Corridor:
    """Stand on a line, step left or right; +1 at the right end, -1 at the left."""

    length = 7

    def __init__(self, seed):
        self._random = np.random.RandomState(seed)

    def reset(self):
        self.at = self.length // 2
        self.steps = 0
        return self._observation()

    def _observation(self):
        one_hot = np.zeros(self.length, np.float32)
        one_hot[self.at] = 1
        return one_hot

    def step(self, action):
        if self._random.rand() < 0.1:  # slippery
            action = 1 - action
        self.at += 1 if action == 1 else -1
        self.steps += 1
        reward = 1.0 if self.at == self.length - 1 else -1.0 if self.at == 0 else -0.01
        done = self.at in (0, self.length - 1) or self.steps >= 30
        return self._observation(), reward, done
