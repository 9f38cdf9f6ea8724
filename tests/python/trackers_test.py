"""The guide to experiment trackers works unchanged with their clients; none needs a network."""

import logging
import pathlib
import re

import guides
import keras
import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session
from tensorflow.python.eager import context

import tensorbow

PAGE = guides.GUIDES / "experiment-trackers.md"
ITERATIONS = [20, 40, 60, 80, 100]


def block(words):
    """Returns the block of the page with these words."""
    (found,) = [code for _, code, _ in guides.blocks(PAGE) if words in code]
    return found


def follow(words, tmp_path, monkeypatch):
    """Executes a block with a session that trains; returns the names of its metrics."""
    monkeypatch.chdir(tmp_path)
    p = linear()
    x, y = rows(8)
    with session(p.graph) as sess:
        sess.run(p.init)
        fed = {p.x: x, p.y: y}
        names = {"sess": sess, "train_op": p.train, "batch": lambda: fed}
        exec(compile(block(words), PAGE.name, "exec"), names)
        return sess.metrics().scalars()


def test_scalars_are_a_flat_dict_of_floats(tmp_path, monkeypatch):
    scalars = follow("getLogger", tmp_path, monkeypatch)
    logging.getLogger("tensorbow").setLevel(logging.NOTSET)
    assert {"samples_per_second", "learners", "learner_1/spread"} < set(scalars)
    assert all(type(value) is float for value in scalars.values())


def test_tensorboard_reads_what_is_written(tmp_path, monkeypatch):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    scalars = follow("FileWriter", tmp_path, monkeypatch)
    events = EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {f"tensorbow/{name}" for name in scalars}
    learners = events.Scalars("tensorbow/learners")
    assert [(e.step, e.value) for e in learners] == [(step, 2.0) for step in ITERATIONS]


def test_weights_and_biases_takes_the_dict(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    logged = []
    monkeypatch.setattr(wandb.Run, "log", _noting(wandb.Run.log, logged))
    monkeypatch.setenv("WANDB_SILENT", "true")
    scalars = follow("wandb.init", tmp_path, monkeypatch)
    assert logged == [(set(scalars), step) for step in ITERATIONS]
    # The client has written them, for later synchronisation.
    (written,) = pathlib.Path(tmp_path).glob("wandb/offline-run-*/*.wandb")
    assert b"samples_per_second" in written.read_bytes()


def _noting(log, logged):
    def noted(run, values, step=None, **more):
        logged.append((set(values), step))
        return log(run, values, step=step, **more)

    return noted


def test_weights_and_biases_takes_the_learners_of_keras(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SILENT", "true")
    logged = []
    monkeypatch.setattr(wandb.Run, "log", _noting(wandb.Run.log, logged))
    names = {}
    exec(compile(block("LearnersLogger"), PAGE.name, "exec"), names)
    run = wandb.init(project="tensorbow", mode="offline")
    with context.eager_mode():
        model = keras.Sequential([keras.layers.Dense(1)])
        tensorbow.keras.replicate(model, tensorbow.Options(learners_per_device=2))
        model.compile("sgd", "mse")
        data = np.ones((8, 2)), np.ones((8, 1))
        model.fit(*data, epochs=2, verbose=0, callbacks=[names["LearnersLogger"]()])
    run.finish()
    assert [("learner_1/spread" in names, step) for names, step in logged] == [(True, None)] * 2


def test_mlflow_takes_the_dict(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    scalars = follow("mlflow.start_run", tmp_path, monkeypatch)
    client = mlflow.MlflowClient()
    (run,) = client.search_runs(["0"])
    assert set(run.data.metrics) == set(scalars)
    history = client.get_metric_history(run.info.run_id, "learners")
    assert [(metric.step, metric.value) for metric in history] == [(n, 2.0) for n in ITERATIONS]


def test_every_block_is_executed():
    assert re.findall(r"`(\S+)`", PAGE.read_text())
    found = [code for _, code, _ in guides.blocks(PAGE)]
    words = ("FileWriter", "wandb.init", "LearnersLogger", "mlflow.start_run", "getLogger")
    assert [sum(word in code for word in words) for code in found] == [1] * len(words)
    assert tf.__version__  # the page's own import
