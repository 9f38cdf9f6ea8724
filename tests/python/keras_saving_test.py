"""Saved models are plain Keras's; they hold the central model."""

import copy
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_models import ROWS, classifier, logistic, options, small

import tensorbow
from tensorbow.keras import learner_value


@pytest.fixture
def trained(digits):
    model = classifier(options(), "adam", small)
    model.fit(digits[0][: 6 * ROWS], digits[1][: 6 * ROWS], batch_size=ROWS, verbose=0)
    weight = model.trainable_variables[0]
    assert not np.array_equal(*(learner_value(model, weight, j) for j in range(2)))
    return model


LOAD = """
import sys
import keras, numpy as np
model = keras.models.load_model(sys.argv[1])
assert not any(name.startswith("tensorbow") for name in sys.modules)
assert model.optimizer.iterations.numpy() == 6
assert model.steps_per_execution == 1
np.save(sys.argv[2], model.predict(np.load(sys.argv[3]), verbose=0))
expected = model.get_weights()
model.set_weights([0 * weight for weight in expected])
model.load_weights(sys.argv[4])
for a, b in zip(model.get_weights(), expected):
    np.testing.assert_array_equal(a, b)
assert not any(name.startswith("tensorbow") for name in sys.modules)
"""


def test_a_saved_model_loads_without_tensorbow(trained, digits, tmp_path):
    names = ("model.keras", "out.npy", "in.npy", "model.weights.h5")
    path, out, given, weights = (tmp_path / name for name in names)
    trained.save(path)
    trained.save_weights(weights)
    np.save(given, digits[0][:8])
    subprocess.run([sys.executable, "-c", LOAD, path, out, given, weights], check=True)
    expected = trained.predict(digits[0][:8], verbose=0)
    np.testing.assert_allclose(np.load(out), expected, rtol=1e-5, atol=1e-6)
    for file in (path, weights):
        assert b"tensorbow" not in file.read_bytes()


def test_weights_checkpoints_and_saved_models_hold_the_central_model(trained, digits, tmp_path):
    x = digits[0][:8]
    expected = trained.predict(x, verbose=0)
    trained.save_weights(tmp_path / "m.weights.h5")
    stock = classifier(None, "adam", small)
    stock.load_weights(tmp_path / "m.weights.h5")
    np.testing.assert_array_equal(stock.predict(x, verbose=0), expected)
    trained.export(tmp_path / "exported", verbose=False)
    exported = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(exported.serve(x), expected, rtol=1e-5, atol=1e-6)
    saved = tf.train.Checkpoint(model=trained).save(tmp_path / "checkpoint")
    tf.train.Checkpoint(model=stock).restore(saved)
    np.testing.assert_array_equal(stock.predict(x, verbose=0), expected)


def test_all_learners_go_on_from_loaded_weights(digits, tmp_path):
    """From equal replicas, one iteration of gradient descent is stock Keras's on all rows."""
    x, y = digits[0][: 2 * ROWS], digits[1][: 2 * ROWS]
    model, stock = logistic(options()), logistic(None)
    model.fit(digits[0][:96], digits[1][:96], batch_size=ROWS, verbose=0)
    model.save_weights(tmp_path / "m.weights.h5")
    expected = model.get_weights()
    model.fit(digits[0][:96], digits[1][:96], batch_size=ROWS, verbose=0)
    assert not np.array_equal(model.get_weights()[0], expected[0])
    for each in (model, stock):
        each.load_weights(tmp_path / "m.weights.h5")
        for a, b in zip(each.get_weights(), expected):
            np.testing.assert_array_equal(a, b)
    for each in (model, stock):
        each.fit(x, y, batch_size=2 * ROWS, shuffle=False, verbose=0)
    for a, b in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_copies_are_plain_models(trained, digits):
    x = digits[0][:8]
    for other in (copy.deepcopy(trained), keras.models.clone_model(trained)):
        assert not hasattr(other, "num_learners")
        other.set_weights(trained.get_weights())
        np.testing.assert_array_equal(other.predict(x, verbose=0), trained.predict(x, verbose=0))


def test_summary_and_attributes(trained, capsys):
    trained.summary()
    assert "Total params" in capsys.readouterr().out
    assert trained.num_learners == 2
    assert isinstance(trained, keras.Sequential)
    assert tensorbow.keras.replicate(trained) is trained
