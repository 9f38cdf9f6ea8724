"""Adaptive SGD in sessions, against NumPy models of the paper's formulas (arXiv 2110.07029).

Learners take turns (scheduling="round_robin") where bits or updates are compared.
"""

import dataclasses
import warnings

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorbow

tf1 = tf.compat.v1

FEATURES = 3
RATE = 0.05


class Program:
    """Least squares under one of TensorFlow's optimisers."""

    def __init__(self, optimiser="sgd", rate=RATE, sparse=False):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None, FEATURES], "x")
            self.y = tf1.placeholder(tf.float32, [None], "y")
            self.rate = tf1.placeholder_with_default(np.float32(rate), [], "rate")
            self.w = tf1.get_variable(
                "w", [FEATURES], initializer=tf1.zeros_initializer(), use_resource=True
            )
            if sparse:
                rows = tf.gather(self.w, tf.range(FEATURES))
                predicted = tf.linalg.matvec(self.x, rows)
            else:
                predicted = tf.linalg.matvec(self.x, self.w)
            self.loss = tf.reduce_mean(tf.square(predicted - self.y))
            kind = {
                "sgd": lambda: tf1.train.GradientDescentOptimizer(rate),
                "fed rate": lambda: tf1.train.GradientDescentOptimizer(self.rate),
                "momentum": lambda: tf1.train.MomentumOptimizer(rate, 0.9),
            }[optimiser]
            self.train = kind().minimize(self.loss)
            self.init = tf1.global_variables_initializer()

    def session(self, synchroniser, learners=2, scheduling="round_robin", **options):
        return tensorbow.TensorBowSession(
            graph=self.graph,
            options=tensorbow.Options(
                synchroniser=synchroniser,
                learners_per_device=learners,
                scheduling=scheduling,
                **options,
            ),
        )

    def feeds(self, x, y):
        return {self.x: x, self.y: y}


def data(rows, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    return x, (x @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=rows)).astype(np.float32)


class Model:
    """The formulas, in float64, on one feed after the other; learners take turns."""

    def __init__(self, options, learners, momentum=0.0, rate=RATE):
        self.b_min, self.b_max = options.b_min, options.b_max
        self.beta, self.mega_batch = options.beta, options.mega_batch
        self.options, self.learners, self.rate = options, learners, rate
        self.sizes = [options.b_max] * learners
        self.w = [np.zeros(FEATURES) for _ in range(learners)]
        self.slots = [np.zeros(FEATURES) for _ in range(learners)]
        self.slot_momentum = momentum
        self.z = self.z_before = np.zeros(FEATURES)
        self.updates, self.rows = [0] * learners, 0
        self.turn = 0  # turns continue, however runs end
        self.weights = []

    def train(self, x, y):
        begin = 0
        while begin < len(x):
            end = min(len(x), begin + self.mega_batch - self.rows)
            while begin < end:
                rows = min(self.sizes[self.turn], end - begin)
                self.update(self.turn, x[begin : begin + rows], y[begin : begin + rows])
                begin, self.turn = begin + rows, (self.turn + 1) % self.learners
            if self.rows == self.mega_batch:
                self.merge()

    def update(self, j, x, y):
        gradient = 2 * x.T.astype(np.float64) @ (x @ self.w[j] - y) / len(x)
        self.slots[j] = self.slot_momentum * self.slots[j] + gradient
        self.w[j] = self.w[j] - self.rate * self.sizes[j] / self.b_max * self.slots[j]
        self.updates[j] += 1
        self.rows += len(x)

    def shares(self):
        if not self.options.normalisation:
            return np.full(self.learners, 1 / self.learners)
        equal = len(set(self.updates)) == 1
        counts = self.sizes if equal else self.updates
        return np.array(counts, np.float64) / sum(counts)

    def merge(self):
        p = self.shares()
        small = all(np.linalg.norm(w) / FEATURES < self.options.threshold for w in self.w)
        if self.options.normalisation and small and len(set(self.updates)) > 1:
            p[np.argmax(self.updates)] *= 1 + self.options.perturbation
            p[np.argmin(self.updates)] *= 1 - self.options.perturbation
        merged = sum(p_j * w for p_j, w in zip(p, self.w))
        self.z, self.z_before = merged + self.options.momentum * (self.z - self.z_before), self.z
        self.w = [self.z.copy() for _ in self.w]
        self.weights.append(p)
        mean = np.mean(self.updates)
        if self.options.scaling:
            for j, u in enumerate(self.updates):
                size = self.sizes[j] + self.beta * (u - mean)
                if self.b_min <= size <= self.b_max:
                    self.sizes[j] = int(np.floor(size + 0.5))
        self.updates, self.rows = [0] * self.learners, 0

    def read(self):
        return sum(p * w for p, w in zip(self.shares(), self.w)) if self.rows else self.z


ADAPTIVE = tensorbow.AdaptiveSGD(
    mega_batch=50, b_min=2, b_max=20, beta=3.0, momentum=0.5, threshold=0.3
)


@pytest.mark.parametrize("optimiser", ["sgd", "fed rate", "momentum", "sparse"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"scaling": False}, {"normalisation": False}, {"threshold": 1e6}, {"perturbation": 0.0}],
    ids=str,
)
def test_every_replica_and_the_merged_model_are_the_formulas(optimiser, changes):
    options = dataclasses.replace(ADAPTIVE, **changes)
    sparse = optimiser == "sparse"
    program = Program("sgd" if sparse else optimiser, sparse=sparse)
    model = Model(options, 2, momentum=0.9 if optimiser == "momentum" else 0.0)
    with program.session(options) as session:
        session.run(program.init)
        # Runs that end in the middle of a mega-batch, and one that has several.
        for run, rows in enumerate([50, 30, 20, 7, 93, 130, 19]):
            x, y = data(rows, seed=run)
            session.run(program.train, program.feeds(x, y))
            model.train(x, y)
            for j in range(2):
                np.testing.assert_allclose(
                    session.learner_value(program.w, j), model.w[j], rtol=1e-4, atol=1e-6
                )
            np.testing.assert_allclose(session.run(program.w), model.read(), rtol=1e-4, atol=1e-6)
            merged = session.central(program.w, averaged=False)
            np.testing.assert_allclose(merged, model.z, rtol=1e-4, atol=1e-6)
        records = session.adaptive
    assert len(records) == len(model.weights) == 6
    for record, weights in zip(records, model.weights):
        np.testing.assert_allclose(record.weights, weights, rtol=1e-12)
        assert sum(record.rows) == 50
    if options.scaling:
        assert len({record.sizes for record in records}) > 1, "sizes have changed"


@settings(max_examples=25, deadline=None)
@given(
    learners=st.integers(2, 4),
    b_max=st.integers(1, 40),
    beta=st.floats(0.1, 30),
    mega_batch=st.integers(1, 200),
    runs=st.lists(st.integers(1, 150), min_size=1, max_size=6),
)
def test_every_row_is_trained_on_once(learners, b_max, beta, mega_batch, runs):
    program = Program(rate=1e-3)
    options = tensorbow.AdaptiveSGD(mega_batch=mega_batch, b_max=b_max, beta=beta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tensorbow.TensorBowWarning)  # of one batch in a run
        with program.session(options, learners, scheduling="fcfs") as session:
            session.run(program.init)
            for rows in runs:
                losses = session.run([program.train, program.loss], program.feeds(*data(rows)))
                assert np.isfinite(losses[1])
            assert session.samples_seen == sum(runs)
            records = session.adaptive
    assert len(records) == sum(runs) // mega_batch
    for record in records:
        assert sum(record.rows) == mega_batch
        np.testing.assert_allclose(record.rates, np.array(record.sizes) / b_max)
        assert all(max(1, b_max // 8) <= size <= b_max for size in record.sizes)


def test_two_runs_compute_the_same_bits_and_reading_changes_nothing():
    def train(reads):
        program = Program("momentum")
        with program.session(ADAPTIVE) as session:
            session.run(program.init)
            for run in range(6):
                session.run(program.train, program.feeds(*data(37, seed=run)))
                if reads:
                    session.run(program.w)
                    session.central(program.w, averaged=False)
            return [session.learner_value(program.w, j).tobytes() for j in range(2)]

    assert train(False) == train(True) == train(True)


def test_values_between_merges_are_saved_and_go_on_bit_for_bit(tmp_path):
    program = Program("momentum")
    path = str(tmp_path / "state")
    with program.session(ADAPTIVE) as session:
        session.run(program.init)
        for run in range(5):
            session.run(program.train, program.feeds(*data(37, seed=run)))
        session.save_state(path)
        session.run(program.train, program.feeds(*data(90, seed=9)))
        wanted = [session.learner_value(program.w, j).tobytes() for j in range(2)]
        sizes = session.adaptive[-1].sizes
    with program.session(ADAPTIVE) as session:
        session.load_state(path)
        session.run(program.train, program.feeds(*data(90, seed=9)))
        assert [session.learner_value(program.w, j).tobytes() for j in range(2)] == wanted
        assert session.adaptive[-1].sizes == sizes
    other = dataclasses.replace(ADAPTIVE, b_max=32)
    with program.session(other) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="b_max"):
            session.load_state(path)


def test_a_run_that_fails_takes_the_learners_back_to_the_last_merge():
    program = Program()
    with program.graph.as_default():
        bad = tf1.placeholder_with_default(np.zeros([0], np.float32), [None], "bad")
        with tf.control_dependencies([tf.debugging.assert_less(tf.size(bad), 1)]):
            train = tf1.train.GradientDescentOptimizer(RATE).minimize(program.loss)
    with program.session(ADAPTIVE, replicate=["bad"]) as session:
        session.run(program.init)
        session.run(train, program.feeds(*data(80)))
        assert len(session.adaptive) == 1
        merged = session.central(program.w, averaged=False)
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(train, program.feeds(*data(20)) | {bad: np.ones(1)})
        for j in range(2):
            np.testing.assert_array_equal(session.learner_value(program.w, j), merged)
        session.run(train, program.feeds(*data(50)))
        assert len(session.adaptive) == 2 and sum(session.adaptive[-1].rows) == 50


def test_a_write_between_merges_is_where_all_learners_go_on():
    program = Program()
    with program.session(ADAPTIVE) as session:
        session.run(program.init)
        session.run(program.train, program.feeds(*data(80)))
        session.run(program.w.assign([7.0, 8.0, 9.0]))
        for j in range(2):
            np.testing.assert_array_equal(session.learner_value(program.w, j), [7, 8, 9])
        np.testing.assert_array_equal(session.run(program.w), [7, 8, 9])
        session.run(program.train, program.feeds(*data(4)))
        assert np.abs(session.run(program.w) - [7, 8, 9]).max() < 4


def test_learners_come_and_go():
    program = Program()
    with program.session(ADAPTIVE, learners=3) as session:
        session.run(program.init)
        session.run(program.train, program.feeds(*data(80)))
        before = session.run(program.w)
        for learners in (2, 1, 4):
            session.set_learners(learners)
            np.testing.assert_allclose(session.run(program.w), before, rtol=1e-6)
            session.run(program.train, program.feeds(*data(30)))
            before = session.run(program.w)
        assert session.samples_seen == 80 + 3 * 30


def another_training_operation(program):
    """Makes a variable with its training operation, and the program's initialiser with it."""
    with program.graph.as_default():
        b = tf1.get_variable("b", [], initializer=tf1.zeros_initializer(), use_resource=True)
        loss = tf.reduce_mean(tf.square(program.y - b))
        other = tf1.train.GradientDescentOptimizer(RATE).minimize(loss, var_list=[b])
        return b, other, tf1.global_variables_initializer()


def test_two_training_operations_share_a_mega_batch():
    program = Program()
    b, other, init = another_training_operation(program)
    with program.session(ADAPTIVE) as session:
        session.run(init)
        session.run(program.train, program.feeds(*data(30)))
        session.run(other, program.feeds(*data(20)))
        (record,) = session.adaptive
        assert sum(record.rows) == 50
        for variable in (program.w, b):
            values = [session.learner_value(variable, j) for j in range(2)]
            np.testing.assert_array_equal(values[0], values[1])
            assert np.all(values[0] != 0)


def test_pipelines_have_a_batch_for_each_learner():
    graph = tf.Graph()
    with graph.as_default():
        x, y = data(640)
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
        features, labels = tf1.data.make_one_shot_iterator(dataset).get_next()
        w = tf1.get_variable(
            "w", [FEATURES], initializer=tf1.zeros_initializer(), use_resource=True
        )
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features, w) - labels))
        train = tf1.train.GradientDescentOptimizer(RATE).minimize(loss)
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(
        synchroniser=tensorbow.AdaptiveSGD(mega_batch=64), learners_per_device=2
    )
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                session.run(train)
        assert session.samples_seen == 640
        assert len(session.adaptive) == 10
        assert {record.updates for record in session.adaptive} == {(2, 2)}
        assert {record.rates for record in session.adaptive} == {(1.0, 1.0)}
        np.testing.assert_allclose(session.run(w), [1.0, -2.0, 0.5], atol=0.4)


def test_updates_without_a_known_rate_run_on_one_learner_with_a_sentence():
    program = Program()
    with program.graph.as_default():
        (gradient,) = tf.gradients(program.loss, [program.w])
        train = program.w.assign_sub(RATE * gradient)
    with program.session(ADAPTIVE) as session:
        session.run(program.init)
        with pytest.warns(tensorbow.TensorBowWarning, match="scales each learner's learning rate"):
            session.run(train, program.feeds(*data(40)))


def test_a_run_of_one_batch_warns():
    program = Program()
    with program.session(ADAPTIVE) as session:
        session.run(program.init)
        with pytest.warns(tensorbow.TensorBowWarning, match="no more rows than one learner's"):
            session.run(program.train, program.feeds(*data(16)))


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"mega_batch": 0}, "mega_batch must be from 1"),
        ({"b_max": 2.5}, "b_max must be an int or None, got 2.5"),
        ({"b_min": 9, "b_max": 8}, "b_min must be at most b_max, got 9 and 8"),
        ({"beta": 0}, "beta must be greater than 0"),
        ({"momentum": 1}, r"momentum must be in \[0, 1\)"),
        ({"perturbation": -0.1}, r"perturbation must be in \[0, 1\)"),
        ({"threshold": float("nan")}, "threshold must be finite"),
        ({"scaling": 1}, "scaling must be a bool"),
    ],
)
def test_wrong_arguments(arguments, error):
    with pytest.raises((TypeError, ValueError), match=error):
        tensorbow.AdaptiveSGD(**arguments)


def test_options_that_do_not_go_with_it():
    adaptive = tensorbow.AdaptiveSGD()
    with pytest.raises(ValueError, match="give b_max= to it"):
        tensorbow.Options(synchroniser=adaptive, batch_size=4)
    with pytest.raises(ValueError, match="learners of the same speed"):
        tensorbow.Options(synchroniser=adaptive, learners_per_device="auto")
    assert not tensorbow.Options(synchroniser=adaptive).may_tune_learners
