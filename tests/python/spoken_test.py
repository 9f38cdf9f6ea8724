"""Messages point to their cause: the user's line, the right spelling, the missing object."""

import inspect
import multiprocessing
import os
import sys
import threading
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session
from tensorflow.python.eager import context

import tensorbow
from tensorbow._runtime import messages
from tensorbow.options import MORE_LEARNERS_THAN_CORES

tf1 = tf.compat.v1


def line():
    """Returns the number of the caller's line."""
    return sys._getframe(1).f_lineno


@pytest.fixture
def said():
    """Returns the warnings of the test, as (line of this file, text)."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")

        def note(message, category, filename, lineno, file=None, text=None):
            assert issubclass(category, tensorbow.TensorBowWarning), message
            found.append((lineno if filename == __file__ else filename, str(message)))

        warnings.showwarning = note
        yield found


def same_for_all():
    """Makes a graph whose learning run has no data, which causes a warning."""
    graph = tf.Graph()
    with graph.as_default():
        w = tf1.get_variable("w", initializer=1.0)
        tf1.train.get_or_create_global_step()
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.square(w), name="train")
    return graph, train


def initialised(graph):
    made = session(graph)
    with graph.as_default():
        made.run(tf1.global_variables_initializer())
    return made


# --------------------------------------------------------------------- the user's own line


def test_a_warning_of_a_run_is_at_the_line_of_the_run(said):
    graph, train = same_for_all()
    with initialised(graph) as s:
        s.run(train), (there := line())
        assert [at for at, _ in said] == [there]
        assert "has no feeds" in said[0][1]


def test_a_warning_in_tensorflows_own_loop_is_at_the_line_that_runs_it(said):
    graph, train = same_for_all()
    with graph.as_default():
        creator = tensorbow.SessionCreator(
            options=tensorbow.Options(learners_per_device=2, synchroniser=tensorbow.SMA())
        )
        with tf1.train.MonitoredSession(creator) as s:
            s.run(train), (there := line())
    assert [at for at, _ in said] == [there]


def test_a_warning_of_a_callable_is_at_the_line_of_its_call(said):
    graph, train = same_for_all()
    with initialised(graph) as s:
        execute = s.make_callable(train)
        execute(), (there := line())
    assert [at for at, _ in said] == [there]


def test_a_warning_in_a_thread_of_its_own_is_given(said):
    graph, train = same_for_all()
    with initialised(graph) as s:
        thread = threading.Thread(target=s.run, args=[train])
        thread.start()
        thread.join()
    assert [text[:14] for _, text in said] == ["A learning run"]


def test_a_warning_of_a_construction_is_at_its_line(said):
    server = tf1.train.Server.create_local_server()
    with tf.Graph().as_default():
        tensorbow.TensorBowSession(server.target).close(), (there := line())
    assert [at for at, _ in said] == [there]


def test_a_warning_of_fit_is_at_the_line_of_fit(said):
    with context.eager_mode():
        model = tensorbow.keras.replicate(keras.Sequential([keras.layers.Dense(1)]))
        model.compile("sgd", "mse", run_eagerly=True), (there := line())
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0)
    assert [at for at, _ in said] == [there]
    assert "trains as stock Keras does" in said[0][1]


# ------------------------------------------------------------------------- the right spelling


@pytest.mark.parametrize(
    "call, right",
    [
        (lambda: tensorbow.Options(synchronizer="auto"), "did you mean synchroniser=?"),
        (lambda: tensorbow.Options(learners=2), "did you mean learners_per_device=?"),
        (lambda: tensorbow.Options(num_learners=2), "did you mean learners_per_device=?"),
        (lambda: tensorbow.Options(threads=2), "did you mean threads_per_learner=?"),
        (lambda: tensorbow.Options(batchsize=2), "did you mean batch_size=?"),
        (lambda: tensorbow.Options(colour=2), "wanted learners_per_device, threads_per_learner, "),
        (lambda: tensorbow.SMA(center="current"), "did you mean centre=?"),
        (lambda: tensorbow.EASGD(ema=0.9), "wanted alpha, "),
        (lambda: tensorbow.AdaptiveSGD(normalization=True), "did you mean normalisation=?"),
        (lambda: tensorbow.Cluster(["a:1"], 0, elastics=True), "did you mean elastic=?"),
        (
            lambda: tensorbow.TensorBowSession(learners_per_device=2),
            "wanted options=tensorbow.Options(learners_per_device=...)",
        ),
        (
            lambda: tensorbow.InteractiveSession(learners=2),
            "wanted options=tensorbow.Options(learners_per_device=...)",
        ),
        (
            lambda: tensorbow.keras.replicate(None, synchronizer="auto"),
            "wanted options=tensorbow.Options(synchroniser=...)",
        ),
        (lambda: tensorbow.TensorBowSession(option=None), "did you mean options=?"),
    ],
)
def test_a_misspelt_argument_gets_the_right_spelling_back(call, right):
    with pytest.raises(TypeError) as error:
        call()
    assert right in str(error.value)


def test_signatures_are_those_that_are_written():
    assert list(inspect.signature(tensorbow.TensorBowSession).parameters) == [
        *("target", "graph", "config", "options")
    ]
    assert list(inspect.signature(tensorbow.keras.replicate).parameters) == ["model", "options"]
    assert "learners_per_device" in inspect.signature(tensorbow.Options).parameters


def test_auto_is_named_where_it_is_allowed():
    with pytest.raises(TypeError, match="must be an int, \"auto\" or None, got 'many'"):
        tensorbow.Options(learners_per_device="many")
    with pytest.raises(TypeError, match="batch_size must be an int or None, got 'many'"):
        tensorbow.Options(batch_size="many")


@pytest.mark.parametrize(
    "options, text",
    [
        (dict(shard=["X:0"]), "No tensor 'X:0' in the session's graph (did you mean 'x:0'?)"),
        (dict(replicate=["eror"]), "'eror:0' in the session's graph (did you mean 'error:0'?)"),
        (dict(combine={"nothing": "sum"}), "'nothing:0' in the session's graph; Options(combine="),
        (dict(run_kind={"trains": "write"}), "No operation 'trains' in the session's graph (did"),
    ],
)
def test_a_name_that_the_graph_does_not_have_gets_one_that_it_has(options, text, said):
    p = linear()
    x, y = rows(8)
    with session(p.graph, **options) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y}), (there := line())
    (found,) = [(at, message) for at, message in said if "has no effect there" in message]
    assert found[0] == there and text in found[1]


def test_a_name_without_its_scope_gets_the_whole_one(said):
    p = linear()
    x, y = rows(8)
    with p.graph.as_default():
        tf.identity(p.x, "model/inputs")
    with session(p.graph, replicate=["inputs:0"]) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y})
    assert "(did you mean 'model/inputs:0'?)" in "".join(text for _, text in said)


# ------------------------------------------------------------------------- numbers of things


def test_one_thing_is_singular():
    found = [messages.count(n, "learner") for n in (0, 1, 2, 1000)]
    assert found == ["0 learners", "1 learner", "2 learners", "1,000 learners"]


def test_rows_of_one_are_one_row():
    p = linear()
    with session(p.graph, learners=1, batch_size=1) as s:
        s.run(p.init)
        for count, text in ((1, "feed x:0: 1 row\n"), (2, "feed x:0: 1 + 1 rows\n")):
            x, y = rows(count)
            assert text in str(s.explain(p.train, {p.x: x, p.y: y})) + "\n"


# ------------------------------------------------------------------------------ what is missing


def test_explain_refuses_a_run_that_lacks_a_feed_as_the_run_itself_does():
    p = linear()
    x, y = rows(8)
    with session(p.graph, learners=2) as s:
        s.run(p.init)
        for act in (s.run, s.explain):
            with pytest.raises(tf.errors.InvalidArgumentError, match="'?y"):
                act(p.train, {p.x: x})
            with pytest.raises(tf.errors.InvalidArgumentError):
                act(p.loss)
        assert s.explain(p.train, {p.x: x, p.y: y}).learners == 2
        # A fed tensor in the middle needs nothing before it.
        assert s.explain(p.loss, {p.error: y}).kind == "read"
        assert s.run(p.loss, {p.error: y}) > 0


def test_more_learners_than_cores_are_remarked_on_once(monkeypatch, said):
    monkeypatch.setattr(messages, "_said", set())
    monkeypatch.setattr(tensorbow.options, "cores", lambda: 2)
    enough = tensorbow.Options(learners_per_device=2)
    many = tensorbow.Options(learners_per_device=3)
    tensorbow.TensorBowSession(graph=tf.Graph(), options=enough).close()
    assert said == []
    tensorbow.TensorBowSession(graph=tf.Graph(), options=many).close(), (there := line())
    tensorbow.TensorBowSession(graph=tf.Graph(), options=many).close()
    ((at, text),) = said
    assert at == there
    assert text.startswith("There are more learners than cores, which take turns")
    assert text.endswith("got 3 learners of 1 thread, and 2 cores.")
    assert MORE_LEARNERS_THAN_CORES in messages._said


@pytest.mark.parametrize("threads", [2, [1, 2]])
def test_threads_of_learners_count_as_well(threads, monkeypatch, said):
    monkeypatch.setattr(messages, "_said", set())
    monkeypatch.setattr(tensorbow.options, "cores", lambda: 2)
    options = tensorbow.Options(learners_per_device=2, threads_per_learner=threads)
    tensorbow.TensorBowSession(graph=tf.Graph(), options=options).close()
    assert len(said) == 1


def test_more_learners_than_cores_are_remarked_on_in_keras(monkeypatch, said):
    monkeypatch.setattr(messages, "_said", set())
    monkeypatch.setattr(tensorbow.options, "cores", lambda: 1)
    with context.eager_mode():
        model = keras.Sequential([keras.layers.Dense(1)])
        tensorbow.keras.replicate(model, tensorbow.Options(learners_per_device=2))
        model.compile("sgd", "mse")
        model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0), (there := line())
    assert [at for at, _ in said] == [there]


# ----------------------------------------------------------------------------------- after fork


def forked(act, answers):
    """Returns the message of a session in a forked process."""
    try:
        act()
        answers.send("nothing")
    except RuntimeError as error:
        answers.send(str(error))


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_is_told_to_be_spawned_instead_of_waiting_for_ever():
    p = linear()
    x, y = rows(8)
    fed = {p.x: x, p.y: y}
    with session(p.graph) as s:
        s.run(p.init)
        s.run(p.train, fed)
        for act in (
            lambda: s.run(p.train, fed),
            lambda: s.run(p.loss, fed),
            lambda: s.explain(p.train, fed),
            lambda: s.metrics(),
            lambda: session(p.graph),
        ):
            ours, theirs = multiprocessing.Pipe(duplex=False)
            process = multiprocessing.get_context("fork").Process(target=forked, args=[act, theirs])
            process.start()
            assert ours.poll(60), "the process hangs"
            assert "multiprocessing.get_context('spawn')" in ours.recv()
            process.join(60)
            assert process.exitcode == 0
        s.run(p.train, fed)
        assert s.iterations == 2
