"""The statements of the guide of custom loops, and of the README's example, hold."""

from __future__ import annotations

import re

import guides
import keras
import numpy as np
import tensorflow as tf

import tensorbow


def test_the_guide_does_what_it_says() -> None:
    guides.execute(guides.GUIDES / "custom_loops.md")


def test_the_example_of_the_readme_trains() -> None:
    text = (guides.ROOT / "README.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)[2]
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    names = {
        "tf": tf,
        "tensorbow": tensorbow,
        "model": model,
        "optimizer": keras.optimizers.SGD(0.1),
        "loss_fn": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    }
    exec(code, names)
    before = model.get_weights()
    assert np.isfinite(names["step"](np.ones((32, 4), "float32"), np.ones(32, int)))
    assert (before[0] != model.get_weights()[0]).any()
