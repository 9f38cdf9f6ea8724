"""`tensorbow.function`: its usage, its fallbacks, and the owner of its variables."""

from __future__ import annotations

import gc
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import tensorbow

TWO = tensorbow.Options(learners_per_device=2)
LARGE = 40_000  # elements: learners share one copy


class Line(tf.Module):
    """y = x · w; the gradient of its loss is the mean of the rows of x."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.w = tf.Variable(tf.zeros([size]))

    @tensorbow.function(options=TWO)
    def step(self, x: Any, rate: Any = 1.0) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.linalg.matvec(x, self.w))
        self.w.assign_sub(rate * tape.gradient(loss, self.w))
        return loss


def rows(n: int = 4, size: int = 3) -> tf.Tensor:
    return tf.ones([n, size])


def texts(caught: Any) -> list[str]:
    return [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]


# -------------------------------------------------------------------------------- use


def test_a_method_trains_its_own_instance() -> None:
    a, b = Line(), Line()
    a.step(rows())
    a.step(rows(6))
    b.step(rows())
    np.testing.assert_array_equal(a.w, [-2, -2, -2])
    np.testing.assert_array_equal(b.w, [-1, -1, -1])
    session = tensorbow.session_of(a.step)
    assert session is not None and session.samples_seen == 10 and session.learning_tasks == 4
    assert tensorbow.session_of(b.step) is not session


def test_another_number_of_rows_is_not_another_trace() -> None:
    line, traces = Line(), []

    @tensorbow.function(options=TWO)
    def step(x: Any) -> None:
        traces.append(x.shape)
        line.w.assign_sub(tf.reduce_mean(x, 0) + 0 * line.w)

    for n in (4, 5, 8, 3):
        step(rows(n))
    assert traces == [tf.TensorShape([None, 3])]


def test_python_values_and_objects_are_traced_for() -> None:
    line = Line()
    line.step(rows(), 2.0)
    line.step(rows(), rate=3.0)
    line.step(rows(), tf.constant(4.0))
    np.testing.assert_array_equal(line.w, [-9, -9, -9])


def test_the_decorated_function_keeps_its_name_and_what_tf_function_has() -> None:
    line = Line()

    @tensorbow.function
    def step(x: Any) -> Any:
        """Trains."""
        return line.step(x)

    assert (step.__name__, step.__doc__) == ("step", "Trains.")
    assert step.get_concrete_function(tf.TensorSpec([4, 3])).structured_outputs.shape == []


def test_an_input_signature_is_kept_to() -> None:
    line = Line()

    @tensorbow.function(options=TWO, input_signature=[tf.TensorSpec([None, 3])])
    def step(x: Any) -> None:
        line.w.assign_sub(tf.reduce_mean(x, 0) + 0 * line.w)

    step(rows())
    np.testing.assert_array_equal(line.w, [-1, -1, -1])
    with pytest.raises((TypeError, ValueError)):
        step(tf.ones([4, 2]))


def test_explain_says_what_a_call_does_and_trains_nothing() -> None:
    line = Line()
    found = line.step.explain(rows())
    assert (found.kind, found.learners, found.division) == ("learning", 2, "exact")
    np.testing.assert_array_equal(line.w, [0, 0, 0])


def test_learners_come_and_go() -> None:
    line = Line(LARGE)
    line.step(rows(6, LARGE))
    session = tensorbow.session_of(line.step)
    for learners in (1, 3, 2):
        session.set_learners(learners)
        line.step(rows(6, LARGE))
        assert session.num_learners == learners
    np.testing.assert_array_equal(line.w, np.full(LARGE, -4))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="options must be a tensorbow.Options"):
        tensorbow.function(lambda x: x, options=2)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="learners_per_device is an option"):
        tensorbow.function(learners_per_device=2)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="what tensorbow.function returned"):
        tensorbow.session_of(len)


# ---------------------------------------------------------------------- stock's steps


def test_a_step_that_trains_nothing_is_stocks_without_a_word() -> None:
    line = Line()

    @tensorbow.function(options=TWO)
    def evaluate(x: Any) -> Any:
        return tf.linalg.matvec(x, line.w)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluate(rows()).shape == [4]
    session = tensorbow.session_of(evaluate)
    assert session is None or session.iterations == 0


def undividable() -> tuple[Line, Any]:
    line = Line()

    @tensorbow.function(options=TWO)
    def step(x: Any) -> None:
        one_by_one = tf.map_fn(lambda row: row, x)
        line.w.assign_sub(tf.reduce_sum(tf.sort(one_by_one, axis=0)[:1], 0) + 0 * line.w)

    return line, step


def test_a_step_that_cannot_be_divided_is_stocks_after_one_warning() -> None:
    line, step = undividable()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step(rows())
        step(rows(6))
    (text,) = texts(caught)
    assert text.startswith("tensorbow.function: stock TensorFlow executes 'step', as tf.function")
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(line.w, [-2, -2, -2])


def test_a_replicated_model_is_left_to_its_own_learners() -> None:
    model = tensorbow.keras.replicate(keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)]))
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 3)), np.ones((8, 1)), batch_size=4, verbose=0)

    @tensorbow.function(options=TWO)
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x))
        for g, w in zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables):
            w.assign_sub(g)

    with pytest.warns(tensorbow.TensorBowWarning, match="belongs to a replicated Keras model"):
        step(rows())


@pytest.mark.parametrize("within", ["tape", "function", "eagerly"])
def test_calls_that_somebody_differentiates_or_traces_are_stocks(within: str) -> None:
    line = Line()
    if within == "tape":
        with tf.GradientTape() as tape:
            loss = line.step(rows())
        assert tape.gradient(loss, line.w) is not None
    elif within == "function":
        tf.function(line.step)(rows())
    else:
        tf.config.run_functions_eagerly(True)
        try:
            line.step(rows())
        finally:
            tf.config.run_functions_eagerly(False)
    np.testing.assert_array_equal(line.w, [-1, -1, -1])
    assert tensorbow.session_of(line.step) is None


# -------------------------------------------------------------------------- variables


@pytest.mark.parametrize("size", [3, LARGE])
def test_eager_code_reads_and_writes_the_variables_that_learners_train(size: int) -> None:
    line = Line(size)
    read = tf.function(lambda: line.w + 0)
    for _ in range(3):
        line.step(rows(4, size))
        np.testing.assert_array_equal(read(), line.w)
        before = line.w.value()
        line.w.assign_add(tf.fill([size], 10.0))
        line.w[:1].assign([5.0])
        assert before[0] != 5  # a value already read stays the same
    line.step(rows(4, size))
    expected = np.full(size, 3 * 9 - 1.0)
    expected[0] = 4
    np.testing.assert_array_equal(line.w, expected)


@pytest.mark.parametrize("synchroniser", [tensorbow.SMA(), tensorbow.EASGD()])
def test_with_averaged_models_variables_are_the_central_model(synchroniser: Any) -> None:
    line = Line()
    options = tensorbow.Options(learners_per_device=2, synchroniser=synchroniser)
    step = tensorbow.function(Line.step.python_function, options=options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tensorbow.TensorBowWarning)
        for _ in range(3):
            step(line, rows())
    assert (line.w.numpy() < 0).all()
    line.w.assign([100.0, 100.0, 100.0])
    for _ in range(3):
        step(line, rows())
    assert (line.w.numpy() > 90).all() and (line.w.numpy() < 100).all()


def test_two_steps_train_the_same_variables() -> None:
    line = Line()
    other = tensorbow.function(Line.step.python_function, options=TWO)
    for _ in range(3):
        line.step(rows())
        other(line, rows(), 2.0)
    np.testing.assert_array_equal(line.w, [-9, -9, -9])


@pytest.mark.parametrize("function", [tf.function, tensorbow.function(options=TWO)])
def test_a_step_that_fails_leaves_weights_and_slots_as_they_were(function: Any) -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    optimizer = keras.optimizers.Adam(0.1)

    @function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        weights = model.trainable_variables
        gradients = [tf.debugging.check_numerics(g, "g") for g in tape.gradient(loss, weights)]
        optimizer.apply_gradients(zip(gradients, weights))
        return loss

    def trained() -> list[Any]:
        others = [v for v in optimizer.variables if v is not optimizer.iterations]
        return [v.numpy() for v in [*model.variables, *others]]

    step(rows())
    before = trained()
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(rows() * np.nan)
    for a, b in zip(before, trained()):
        np.testing.assert_array_equal(b, a)
    assert optimizer.iterations == 2  # nothing orders it behind the check
    assert np.isfinite(step(rows()))


def test_a_second_update_that_fails_leaves_the_first_as_in_stock() -> None:
    def train(function: Any) -> list[Any]:
        first, second = (tf.Variable(np.ones(shape)) for shape in [(3, 4), (4, 1)])
        slot = tf.Variable(np.zeros((3, 4)), trainable=False)

        @function
        def step(x: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.matmul(tf.tanh(tf.matmul(x, first)), second) ** 2)
            slot.assign(0.9 * slot + tape.gradient(loss, first))
            first.assign_sub(0.1 * slot)
            with tf.GradientTape() as tape:
                values = tf.debugging.check_numerics(tf.math.log(x @ first + 3.0), "rows")
                loss = tf.reduce_mean(tf.matmul(values, second) ** 2)
            second.assign_sub(0.1 * tape.gradient(loss, second))

        x = np.random.default_rng(1).random((8, 3))
        for last in [x[-1], [-90.0, 0, 0], x[-1]]:
            x[-1] = last
            try:
                step(x)
            except tf.errors.InvalidArgumentError as error:
                assert last[0] == -90 and "rows" in str(error)
        return [v.numpy() for v in (first, second, slot)]

    for ours, stocks in zip(train(tensorbow.function(options=TWO)), train(tf.function)):
        np.testing.assert_allclose(ours, stocks, rtol=1e-10)


@pytest.mark.parametrize("size", [4, 2000, 20_000])
@pytest.mark.parametrize("other", [tf.function, tensorbow.function(options=TWO)])
def test_two_threads_train_the_same_variables(other: Any, size: int) -> None:
    """No update is lost: an update op is one step for the others, as in stock TensorFlow."""
    weights = [tf.Variable(np.zeros((3, size))) for _ in range(3)]
    count = tf.Variable(0)

    def step_of(function: Any, scale: float) -> Any:
        @function
        def step(x: Any) -> None:
            with tf.GradientTape() as tape:
                loss = scale * sum(tf.reduce_mean(tf.reduce_sum(x @ w, 1)) for w in weights)
            for gradient, w in zip(tape.gradient(loss, weights), weights):
                w.assign_sub(gradient)
            count.assign_add(1)

        return step

    x = np.ones((8, 3))
    steps = [step_of(tensorbow.function(options=TWO), 1.0), step_of(other, 2.0)]
    for step in steps:
        step(x)

    def train(step: Any) -> None:
        with context.eager_mode():
            for _ in range(50):
                step(x)

    threads = [threading.Thread(target=train, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    for w in weights:
        np.testing.assert_array_equal(w, np.full((3, size), -51 * 3.0))
    assert count == 2 * 51


@pytest.mark.parametrize("update", ["assign", "descent"])
def test_a_thread_reads_all_of_an_update_or_nothing_of_it(update: str) -> None:
    w = tf.Variable(tf.zeros([200_000]))

    @tensorbow.function(options=TWO)
    def step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.reduce_sum(x, 1)) * tf.reduce_sum(w)
        gradient = tape.gradient(loss, w)
        if update == "assign":
            w.assign_sub(gradient)
        else:
            tf.raw_ops.ResourceApplyGradientDescent(var=w.handle, alpha=1.0, delta=gradient)

    step(rows())
    done, reads, torn = threading.Event(), [], []

    def read() -> None:
        with context.eager_mode():
            while not done.is_set():
                value = w.numpy()
                reads.append(value[0])
                if value.min() != value.max():
                    torn.append(value)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(60):
        step(rows())
    done.set()
    reader.join()
    assert reads and not torn
    assert w.numpy().min() == w.numpy().max() == -61 * 3


def test_functions_that_are_dropped_keep_nothing() -> None:
    def train() -> tuple[Any, Any]:
        line = Line(LARGE)
        step: Callable[..., Any] = tensorbow.function(lambda x: line.step(x), options=TWO)
        line.step(rows(4, LARGE))
        step(rows(4, LARGE))
        return weakref.ref(line), weakref.ref(tensorbow.session_of(line.step))

    line, session = train()
    gc.collect()
    assert line() is None and session() is None


def test_functions_that_are_dropped_leave_no_threads_and_no_sessions():
    def train_one() -> Any:
        w = tf.Variable(np.ones((3, 1)))

        @tensorbow.function(options=tensorbow.Options(learners_per_device=2))
        def step(rows: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(rows @ w))
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        step(np.ones((8, 3)))
        return weakref.ref(tensorbow.session_of(step))

    train_one()
    gc.collect()
    threads = len(os.listdir("/proc/self/task"))
    sessions = [train_one() for _ in range(6)]
    gc.collect()
    assert not any(session() for session in sessions)
    assert len(os.listdir("/proc/self/task")) <= threads + 1
