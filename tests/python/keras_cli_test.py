"""`tensorbow train --frontend keras`."""

import json
import re

import keras
import numpy as np

from tensorbow import cli


def test_it_compares_with_stock_keras_and_saves_a_keras_file(digits, tmp_path, capsys):
    images, labels = (a[:800] for a in digits)
    np.savez(
        tmp_path / "digits.npz",
        x_train=images[:640, ..., 0],
        y_train=labels[:640],
        x_test=images[640:, ..., 0],
        y_test=labels[640:],
    )
    arguments = ["train", "--frontend", "keras", "--model", "logistic", "--learners", "2"]
    arguments += ["--data", tmp_path / "digits.npz", "--epochs", "3", "--compare", "stock"]
    arguments += ["--learning-rate", "0.2", "--drop-at", "3"]
    arguments += ["--json", tmp_path / "numbers.json", "--save", tmp_path / "model"]
    assert cli.main([str(a) for a in arguments]) == 0
    stock, ours = json.loads((tmp_path / "numbers.json").read_text())
    assert stock["name"] == "stock Keras"
    assert ours["name"] == "TensorBow Keras, 2 learners"
    for contender in (stock, ours):
        assert contender["samples"] == [640, 1280, 1920]
        assert contender["accuracy"][-1] > 0.7
    model = keras.models.load_model(tmp_path / "model.keras")
    assert abs(float(model.optimizer.learning_rate) - 0.02) < 1e-6
    _, accuracy = model.evaluate(images[640:], labels[640:], verbose=0)
    assert accuracy == ours["accuracy"][-1]
    output = capsys.readouterr().out
    assert re.search(r"^throughput: \d+\.\d\d times that of stock Keras\b", output, re.M)
    assert f"central model saved as {tmp_path / 'model.keras'}" in output
