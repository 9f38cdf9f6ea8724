"""The records of the logger "tensorbow", and the texts of sessions, metrics and measurements."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf
from messages import without_lines
from programs import linear, rows, session
from tensorflow.python.eager import context

import tensorbow
from tensorbow.tuning import Measurement, TuningLog

tf1 = tf.compat.v1

TRIED = [
    Measurement(2, 1, 2890.4, 0.04, "", False),
    Measurement(1, 2, 3412.0, 0.06, "", False),
    Measurement(4, 1, 0.0, 0.0, "skipped: no memory", False),
]
CHOSEN = [TRIED[0], Measurement(1, 2, 3412.0, 0.06, "", True), TRIED[2]]


@pytest.fixture
def logged(caplog):
    """Returns the logger's records at INFO and above."""
    caplog.set_level(logging.INFO, "tensorbow")
    return caplog


def test_a_decision_is_logged_once_with_both_figures(caplog):
    caplog.set_level(logging.INFO, "tensorbow")
    log = TuningLog()
    for tuning in ([], TRIED[:1], TRIED, CHOSEN, CHOSEN):
        log.tell(tuning)
    assert caplog.messages == [
        "chose 1 learner of 2 threads: 3,412 samples/s, against 2,890 samples/s with 2 learners of "
        "1 thread"
    ]
    assert caplog.records[0].levelno == logging.INFO


def test_what_was_tried_is_logged_at_debug(caplog):
    caplog.set_level(logging.DEBUG, "tensorbow")
    log = TuningLog()
    log.tell(TRIED[:1])
    log.tell(TRIED)
    assert caplog.messages == [
        "tried 2 learners of 1 thread: 2,890 samples/s",
        "tried 1 learner of 2 threads: 3,412 samples/s",
        "tried 4 learners of 1 thread: skipped: no memory",
    ]


@pytest.mark.parametrize(("level", "asked"), [(logging.WARNING, []), (logging.INFO, ["tuning"])])
def test_the_session_is_asked_only_if_somebody_reads_the_log(level, asked, caplog):
    class Native:
        tunes_learners = True

        @property
        def tuning(self):
            found.append("tuning")
            return []

    found = []
    caplog.set_level(level, "tensorbow")
    TuningLog().after_run(Native())
    assert found == asked


def test_a_session_that_searches_tells_the_log(logged, monkeypatch):
    monkeypatch.setattr(tensorbow.tuning, "_RUNS_BETWEEN_LOGS", 1)
    monkeypatch.setattr(tensorbow.tuning, "measurements", lambda native: CHOSEN)
    p = linear(columns=50)
    x, y = rows(32, columns=50)
    options = tensorbow.Options(learners_per_device="auto")
    with tensorbow.TensorBowSession(graph=p.graph, options=options) as sess:
        sess.run(p.init)
        for _ in range(4):
            sess.run(p.train, {p.x: x, p.y: y})
    assert [text for text in logged.messages if text.startswith("chose ")] == [
        "chose 1 learner of 2 threads: 3,412 samples/s, against 2,890 samples/s with 2 learners of "
        "1 thread"
    ]


@pytest.mark.filterwarnings("ignore")
def test_what_one_learner_executes_is_logged_with_the_reason(logged):
    p = linear()
    x, y = rows(8)
    with session(p.graph, synchroniser="auto") as sess, p.graph.as_default():
        total = tf1.get_variable("total", initializer=1.0, trainable=False)
        with tf.control_dependencies([p.train]):
            both = tf1.assign(total, tf.map_fn(tf.reduce_max, p.x)[3])
        sess.run(tf1.global_variables_initializer())
        sess.run(both, {p.x: x, p.y: y})
    (text,) = logged.messages
    assert text.startswith("A learning run is executed by one learner only: ")
    assert "takes the rows apart one by one" in without_lines(text)


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_trains_as_stock_keras_does_is_logged_with_the_reason(logged):
    with context.eager_mode():
        model = tensorbow.keras.replicate(keras.Sequential([keras.layers.Dense(1)]))
        model.compile("sgd", "mse", run_eagerly=True)
    (text,) = logged.messages
    assert text.endswith("on one replica: it was compiled with run_eagerly=True")


# ------------------------------------------------------------------------------ in one line


def test_a_session_is_shown_in_a_line():
    p = linear()
    x, y = rows(8)
    with session(p.graph, learners=2) as sess:
        sess.run(p.init)
        sess.run(p.train, {p.x: x, p.y: y})
        assert repr(sess) == "<TensorBowSession: 2 learners, SMA, 1 iteration>"
    assert repr(sess) == "<TensorBowSession: closed>"


def test_metrics_are_shown_in_a_line():
    p = linear()
    x, y = rows(8)
    with session(p.graph, learners=2) as sess:
        sess.run(p.init)
        sess.run(p.train, {p.x: x, p.y: y})
        shown = repr(sess.metrics())
    assert shown.startswith("<Metrics: ") and len(shown) < 100
    assert " samples/s, 2 learners, " in shown and shown.endswith(", last 1 run>")


def test_what_was_tried_is_shown_in_a_line():
    assert repr(CHOSEN) == (
        "[<2 learners of 1 thread: 2,890 samples/s ±2%>, <1 learner of 2 threads: 3,412 samples/s "
        "±3%, chosen>, <4 learners of 1 thread: skipped: no memory>]"
    )


def test_a_lone_learner_has_the_threads_of_a_stock_session(monkeypatch):
    config = tf1.ConfigProto(intra_op_parallelism_threads=3)
    one = tensorbow.Options(learners_per_device=1)
    with tensorbow.TensorBowSession(graph=tf.Graph(), config=config, options=one) as sess:
        assert sess.threads_per_learner == 3
    monkeypatch.setattr("tensorbow._session.learners.cores", lambda: 5)
    with tensorbow.TensorBowSession(graph=tf.Graph(), options=one) as sess:
        assert sess.threads_per_learner == 5


# ---------------------------------------------------------------------------------- types


def test_replicate_returns_the_models_own_type(tmp_path):
    mypy = pytest.importorskip("mypy.api", reason="mypy is not installed")
    program = tmp_path / "program.py"
    program.write_text(
        "import tensorbow.keras\n"
        "class Mine:\n"
        "    pass\n"
        "reveal_type(tensorbow.keras.replicate(Mine()))\n"
        "reveal_type(tensorbow.Options().learners_per_device)\n"
        "tensorbow.nothing\n"
        "tensorbow.Options(learners=2)\n"
    )
    cache = tmp_path / "cache"
    said, errors, _ = mypy.run(
        ["--strict", "--no-error-summary", f"--cache-dir={cache}", "--no-incremental",
         "--follow-imports=silent", "--ignore-missing-imports", str(program)]
    )  # fmt: skip
    assert errors == ""
    assert 'Revealed type is "program.Mine"' in said
    assert "def (" not in said and "Literal['auto']" in said
    assert 'Module has no attribute "nothing"' in said
    assert 'Unexpected keyword argument "learners"' in said
    assert np.size(said.splitlines()) == 4
