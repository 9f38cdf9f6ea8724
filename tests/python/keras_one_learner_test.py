"""One learner computes the bits of stock Keras on one thread."""

import keras
import numpy as np
import pytest
from keras_models import ROWS, assert_same_state, classifier, independent, network, small

OPTIMISERS = {
    "sgd": lambda: keras.optimizers.SGD(0.05),
    "nesterov": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.002),
    "amsgrad": lambda: keras.optimizers.Adam(0.002, amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(0.002, weight_decay=0.01),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.002, momentum=0.5, centered=True),
    "adagrad": lambda: keras.optimizers.Adagrad(0.05),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0),
    "adamax": lambda: keras.optimizers.Adamax(0.002),
    "nadam": lambda: keras.optimizers.Nadam(0.002),
    "lion": lambda: keras.optimizers.Lion(0.001, weight_decay=0.01),
    "ftrl": lambda: keras.optimizers.Ftrl(0.05, l1_regularization_strength=0.001),
    "lamb": lambda: keras.optimizers.Lamb(0.002),
    "muon": lambda: keras.optimizers.Muon(0.01),
    "adafactor": lambda: keras.optimizers.Adafactor(0.01),
    "clip by value": lambda: keras.optimizers.SGD(0.05, clipvalue=0.1),
    "clip by norm": lambda: keras.optimizers.Adam(0.002, clipnorm=0.1),
    "clip by global norm": lambda: keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=0.5),
    "schedule": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.PiecewiseConstantDecay([7, 15], [0.1, 0.05, 0.001])
    ),
    "cosine": lambda: keras.optimizers.Adam(
        keras.optimizers.schedules.CosineDecay(0.0, 50, warmup_target=0.01, warmup_steps=5)
    ),
    "ema": lambda: keras.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.9),
    "ema overwrites": lambda: keras.optimizers.Adam(
        0.002, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=4
    ),
    "accumulation": lambda: keras.optimizers.Adam(0.002, gradient_accumulation_steps=3),
    "loss scaling": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.05), initial_scale=256.0, dynamic_growth_steps=5
    ),
}


# function_updates_test.py and keras_ssgd_test.py have the others.
CASES = [("adam", network)] + [
    (name, small)
    for name in (
        *("sgd", "adamw", "ftrl", "muon", "clip by global norm", "schedule", "cosine"),
        *("ema", "ema overwrites", "accumulation", "loss scaling"),
    )
]


@pytest.mark.parametrize("optimiser, make", CASES, ids=lambda v: getattr(v, "__name__", v))
def test_an_epoch_of_fit_leaves_the_same_bits(optimiser, make, digits):
    images, labels = digits[0][: 20 * ROWS], digits[1][: 20 * ROWS]
    models, histories = [], []
    for options in (None, independent()):
        model = classifier(options, OPTIMISERS[optimiser], make)
        initial = model.get_weights()
        history = model.fit(images, labels, batch_size=ROWS, epochs=1, verbose=0)
        assert not any(np.array_equal(a, b) for a, b in zip(initial, model.get_weights()))
        models.append(model)
        histories.append(history.history)
    assert histories[0] == histories[1]
    assert_same_state(models[1], models[0])
