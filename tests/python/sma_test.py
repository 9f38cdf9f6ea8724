"""Several learners compute SMA exactly: every replica and z against a NumPy model."""

import dataclasses

import numpy as np
import programs
import pytest
import tensorflow as tf
from sma_model import SMAModel, StockGradients

import tensorbow
from tensorbow import models
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

TOLERANCE = {tf.float32: dict(rtol=1e-5, atol=2e-6), tf.float64: dict(rtol=1e-10, atol=1e-12)}


CURRENT = tensorbow.SMA()
LAGGING = tensorbow.SMA(centre="lagging")
# A centre with the momentum of "auto" under plain gradient descent.
CENTRES = pytest.mark.parametrize(
    ("sma", "expected_momentum"), [(CURRENT, 0.0), (LAGGING, 0.9)], ids=["current", "lagging"]
)


class Comparison:
    """One program, trained by TensorBow and by the NumPy model on the same batches."""

    def __init__(
        self,
        digits,
        num_learners,
        model="lenet",
        dtype=tf.float32,
        use_resource=True,
        learning_rate=0.05,
        optimiser_momentum=0.0,
        expected_momentum=0.0,
        sma=CURRENT,
        **options,
    ):
        self.images, self.labels = digits
        self.images = self.images.astype(dtype.as_numpy_dtype)
        self.dtype = dtype

        def optimiser():
            self.rate = tf1.placeholder_with_default(
                np.array(learning_rate, dtype.as_numpy_dtype), []
            )
            if optimiser_momentum:
                return tf1.train.MomentumOptimizer(self.rate, optimiser_momentum)
            return tf1.train.GradientDescentOptimizer(self.rate)

        self.program = models.build(
            model,
            self.images.shape[1:],
            optimiser=optimiser,
            seed=12,
            use_resource=use_resource,
            dtype=dtype,
        )
        self.gradients = StockGradients(self.program)
        self.session = tensorbow.TensorBowSession(
            graph=self.program.graph,
            options=tensorbow.Options(
                learners_per_device=num_learners, synchroniser=sma, **options
            ),
        )
        self.session.run(self.program.init)
        initial = self.session.run(self.gradients.variables)
        self.model = SMAModel(
            initial,
            num_learners,
            learning_rate,
            optimiser_momentum,
            # EASGD has the lagging centre.
            centre=getattr(sma, "centre", "lagging"),
            alpha=sma.alpha,
            momentum=expected_momentum,
            sync_period=sma.sync_period,
        )

    def rows(self, begin, count):
        return self.images[begin : begin + count], self.labels[begin : begin + count]

    def run(self, begin, count, rate=None):
        images, labels = self.rows(begin, count)
        feeds = {self.program.images: images, self.program.labels: labels}
        if rate is not None:
            feeds[self.rate] = rate
        return self.session.run(self.program.train_op, feeds)

    def check(self):
        tolerance = TOLERANCE[self.dtype]
        central = self.session.run(self.gradients.variables)
        assert all(np.abs(a - b).max() > 0 for a, b in zip(self.model.w[0], self.model.w[-1]))
        for i, variable in enumerate(self.gradients.variables):
            np.testing.assert_allclose(central[i], self.model.z[i], **tolerance)
            for j, replica in enumerate(self.model.w):
                value = self.session.learner_value(variable, j)
                np.testing.assert_allclose(value, replica[i], **tolerance)

    def close(self):
        self.session.close()
        self.gradients.close()


@pytest.mark.parametrize(
    "model, num_learners, use_resource, dtype",
    in_turn(
        ["logistic", "lenet"],
        [2, 3, 4],
        [(True, tf.float32), (False, tf.float64), (True, tf.float64), (False, tf.float32)],
    ),
)
@CENTRES
def test_replicas_and_z_after_20_iterations(
    digits, sma, expected_momentum, num_learners, model, use_resource, dtype
):
    c = Comparison(
        digits,
        num_learners,
        model,
        dtype,
        use_resource,
        sma=sma,
        expected_momentum=expected_momentum,
    )
    for i in range(20):
        begin = i * num_learners * 8
        c.run(begin, num_learners * 8)
        c.model.iteration(c.gradients, [c.rows(begin + j * 8, 8) for j in range(num_learners)])
    c.check()
    assert c.session.iterations == 20
    c.close()


@pytest.mark.parametrize("sma", [CURRENT, LAGGING], ids=["current", "lagging"])
def test_momentum_in_the_learners_leaves_none_for_z(digits, sma):
    # 0.875: the optimiser rounds its momentum to float32, where 0.9 does not exist.
    c = Comparison(
        digits, 2, optimiser_momentum=0.875, learning_rate=0.01, dtype=tf.float64, sma=sma
    )
    for i in range(20):
        c.run(i * 16, 16)
        c.model.iteration(c.gradients, [c.rows(i * 16, 8), c.rows(i * 16 + 8, 8)])
    c.check()
    c.close()


@pytest.mark.parametrize(
    "sma",
    [
        tensorbow.SMA(centre="lagging", alpha=0.3, momentum=0.5, sync_period=3),
        tensorbow.SMA(alpha=0.7, sync_period=3),
        tensorbow.SMA(alpha=1.0),
    ],
    ids=["lagging", "current", "all the way"],
)
def test_given_alpha_momentum_and_period(digits, sma):
    c = Comparison(digits, 3, sma=sma, expected_momentum=sma.momentum or 0.0, dtype=tf.float64)
    for i in range(20):
        c.run(i * 24, 24)
        c.model.iteration(c.gradients, [c.rows(i * 24 + 8 * j, 8) for j in range(3)])
    c.check()
    c.close()


@CENTRES
def test_uneven_shards_and_fewer_rows_than_learners(digits, sma, expected_momentum):
    c = Comparison(digits, 3, sma=sma, expected_momentum=expected_momentum, dtype=tf.float64)
    begin = 0
    for sizes in [(8, 8, 8), (6, 5, 5), (3, 3, 2), (1, 1, 0), (1, 0, 0), (8, 8, 8), (4, 4, 4)]:
        c.run(begin, sum(sizes))
        batches = []
        for size in sizes:
            batches.append(c.rows(begin, size) if size else None)
            begin += size
        c.model.iteration(c.gradients, batches)
    c.check()
    assert c.session.samples_seen == 24 + 16 + 8 + 2 + 1 + 24 + 12
    assert c.session.learning_tasks == 3 + 3 + 3 + 2 + 1 + 3 + 3
    c.close()


@CENTRES
def test_round_robin_tasks_of_one_run(digits, sma, expected_momentum):
    # 11 tasks on 3 learners: three full iterations and a short one of two.
    c = Comparison(
        digits,
        3,
        sma=sma,
        expected_momentum=expected_momentum,
        dtype=tf.float64,
        batch_size=4,
        scheduling="round_robin",
    )
    for run in range(4):
        begin = run * 43
        c.run(begin, 43)
        tasks = [c.rows(begin + 4 * k, min(4, 43 - 4 * k)) for k in range(11)]
        for iteration in range(4):
            batches = tasks[3 * iteration : 3 * iteration + 3]
            c.model.iteration(c.gradients, batches + [None] * (3 - len(batches)))
    c.check()
    assert c.session.iterations == 16
    assert c.session.learning_tasks == 44
    c.close()


@CENTRES
def test_learning_rate_drop_restarts_and_smooth_decay_does_not(digits, sma, expected_momentum):
    c = Comparison(digits, 2, sma=sma, expected_momentum=expected_momentum, dtype=tf.float64)
    rates = [0.05, 0.04, 0.03, 0.02, 0.01, 0.01, 0.009, 0.001, 0.001]
    for i, rate in enumerate(rates):
        if i in (4, 7):  # 0.02 → 0.01 and 0.009 → 0.001
            c.model.restart()
        c.model.learning_rate = rate
        c.run(i * 16, 16, rate)
        c.model.iteration(c.gradients, [c.rows(i * 16, 8), c.rows(i * 16 + 8, 8)])
    c.check()
    c.close()


@CENTRES
def test_restart_never_and_by_request_and_by_callable(digits, sma, expected_momentum):
    for restart, restarted_at in [
        ("never", ()),
        (lambda iterations: iterations in (3, 6), (3, 6)),
        ("request", (5,)),
    ]:
        chosen = dataclasses.replace(sma, restart="never" if restart == "request" else restart)
        c = Comparison(digits, 2, sma=chosen, expected_momentum=expected_momentum, dtype=tf.float64)
        for i in range(9):
            if i in restarted_at:
                c.model.restart()
                if restart == "request":
                    c.session.restart()
            rate = 0.05 if i < 4 else 0.01
            c.model.learning_rate = rate
            c.run(i * 16, 16, rate)
            c.model.iteration(c.gradients, [c.rows(i * 16, 8), c.rows(i * 16 + 8, 8)])
        c.check()
        c.close()


@pytest.mark.parametrize(
    "options", [dict(), dict(batch_size=4, scheduling="round_robin")], ids=["shards", "round_robin"]
)
@pytest.mark.parametrize("sma", [CURRENT, LAGGING], ids=["current", "lagging"])
def test_two_runs_give_the_same_bits(digits, sma, options):
    outcomes = []
    for _ in range(2):
        c = Comparison(digits, 2, sma=sma, **options)
        for i in range(10):
            c.run(i * 37, 37)
        variables = c.gradients.variables
        outcomes.append(
            c.session.run(variables)
            + [c.session.learner_value(v, j) for v in variables for j in range(2)]
        )
        c.close()
    for first, second in zip(*outcomes):
        np.testing.assert_array_equal(first, second)


def test_restart_may_use_the_session_it_belongs_to():
    """The callable reads a loss, and may even train: it is not called again meanwhile."""
    p = programs.linear()
    x, y = programs.rows(8)
    feeds = {p.x: x, p.y: y}
    losses = []

    def restart(iterations):
        losses.append(session.run(p.loss, feeds))
        if iterations == 1:
            session.run(p.train, feeds)
        return False

    sma = tensorbow.SMA(restart=restart)
    with programs.session(p.graph, 2, synchroniser=sma) as session:
        session.run(p.init)
        for _ in range(3):
            session.run(p.train, feeds)
        assert session.iterations == 4
    assert len(losses) == 3 and losses == sorted(losses, reverse=True)


def test_without_averaging_learners_go_their_own_ways(digits):
    images, labels = digits
    program = models.build("logistic", images.shape[1:], seed=5)
    options = tensorbow.Options(learners_per_device=2, synchroniser=tensorbow.Independent())
    with program.graph.as_default():
        variables = tf1.trainable_variables()
    expected = []
    config = tf1.ConfigProto(intra_op_parallelism_threads=1)
    for j in range(2):
        with tf1.Session(graph=program.graph, config=config) as stock:
            stock.run(program.init)
            for i in range(20):
                rows = slice(i * 16 + j * 8, i * 16 + j * 8 + 8)
                feeds = {program.images: images[rows], program.labels: labels[rows]}
                stock.run(program.train_op, feeds)
            expected.append(stock.run(variables))
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        for i in range(20):
            rows = slice(i * 16, i * 16 + 16)
            feeds = {program.images: images[rows], program.labels: labels[rows]}
            session.run(program.train_op, feeds)
        for j in range(2):
            for variable, value in zip(variables, expected[j]):
                np.testing.assert_array_equal(session.learner_value(variable, j), value)
        for value, central in zip(expected[0], session.run(variables)):
            np.testing.assert_array_equal(central, value)


PACES = [
    *((tensorbow.SMA(alpha=a, sync_period=t), 1.0) for a in (None, 0.2, 1.0) for t in (1, 3)),
    *(
        (tensorbow.SMA(alpha=a, centre="lagging", momentum=m, sync_period=t), None)
        for a in (None, 0.2)
        for m in (0.0, 0.9)
        for t in (1, 3)
    ),
]


@pytest.mark.parametrize("learners", [2, 3])
@pytest.mark.parametrize(("sma", "pace"), PACES)
def test_pace_under_a_constant_gradient(learners, sma, pace):
    """The pace of SMA's docstring: that of plain gradient descent for the current centre, for the
    lagging one L / (L + 1 − μ) times as much."""
    if pace is None:
        pace = learners / (learners + 1 - sma.momentum)
    rate, period = 0.01, 2 * sma.sync_period
    graph = tf.Graph()
    with graph.as_default():
        slope = tf1.placeholder(tf.float64, [None])
        w = tf1.get_variable("w", initializer=tf.zeros([], tf.float64))
        train = tf1.train.GradientDescentOptimizer(rate).minimize(tf.reduce_mean(slope) * w)
        init = tf1.global_variables_initializer()
    with programs.session(graph, learners, synchroniser=sma) as session:
        session.run(init)
        for _ in range(200 * period):
            session.run(train, {slope: np.ones(learners)})
        before = session.run(w)
        for _ in range(period):
            session.run(train, {slope: np.ones(learners)})
        moved = (before - session.run(w)) / (period * rate)
    assert moved == pytest.approx(pace, rel=1e-6)


def test_one_row_runs_train_as_stock_does_and_leave_no_stale_replica(digits, one_thread):
    """400 runs of one row, then runs of 64: no jump of the loss, and replicas restart from z."""
    program = models.build("logistic", digits[0].shape[1:], seed=5)
    with program.graph.as_default():
        variables = tf1.trainable_variables()
    feeds = [
        {program.images: digits[0][i % 97 :][:rows], program.labels: digits[1][i % 97 :][:rows]}
        for i, rows in enumerate([1] * 400 + [64] * 20)
    ]
    losses = {}
    for name, session in (
        ("stock", tf1.Session(graph=program.graph, config=one_thread)),
        ("learners", programs.session(program.graph, 2)),
    ):
        with session:
            session.run(program.init)
            for feed in feeds[:400]:
                session.run(program.train_op, feed)
            weights = session.run(variables)
            losses[name] = [
                session.run([program.train_op, program.loss], feed)[1] for feed in feeds[400:]
            ]
            if name == "stock":
                expected = weights
    for ours, stock in zip(weights, expected):
        np.testing.assert_array_equal(ours, stock)
    np.testing.assert_allclose(losses["learners"], losses["stock"], rtol=0.02)
