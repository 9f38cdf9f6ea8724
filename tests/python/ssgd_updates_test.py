"""S-SGD's learners make an update together: each in some slices, for all.

Expected values: TensorFlow's own op in a stock session, given the mean gradient: the sum
over the learners in their order, in the accumulation type, times 1 / learners. Bits must
agree, and all replicas.
"""

import itertools

import numpy as np
import programs
import pytest
import tensorflow as tf
from fused_products_test import COLUMNS, ROWS, WIDE, Update, fused_in_updates
from fused_updates_test import APPLY, KINDS, TYPES, Program, assert_within, name_of, of_op

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

LEARNERS = 3
NARROW = (ROWS, COLUMNS)


def mean_of(gradients):
    """Returns the mean of [learners, …], in the order of the learners."""
    accumulate = np.float64 if gradients.dtype == np.float64 else np.float32
    total = gradients[0].astype(accumulate)
    for gradient in gradients[1:]:
        total = total + gradient.astype(accumulate)
    return (total * (accumulate(1) / accumulate(len(gradients)))).astype(gradients.dtype)


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ops_of(session, fetches, feeds):
    """Runs, and returns the ops of the task graph."""
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(output_partition_graphs=True)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    return [n.op for graph in metadata.partition_graphs for n in graph.node]


def assert_replicas(session, variable, value, learners=LEARNERS, compare=None):
    for j in range(learners):
        (compare or np.testing.assert_array_equal)(session.learner_value(variable, j), value)


@pytest.mark.parametrize(
    "op, dtype, average, use_resource",
    in_turn(APPLY, TYPES, list(itertools.product([None, 0.5], [True, False]))),
    ids=name_of,
)
def test_every_update_is_made_together(op, average, use_resource, dtype, one_thread):
    use_resource |= "Keras" in op  # which is of resources only
    program = Program(of_op(op, use_resource), dtype, use_resource, sparse=None)
    variables = [program.w, *program.slots]
    # TensorFlow's reciprocal square root is an approximation there.
    approximate = op.split(":")[0] == "ApplyAdagrad" and dtype != tf.float64
    with (
        tf1.Session(graph=program.graph, config=one_thread) as stock,
        programs.session_of_parts(
            program.graph, LEARNERS, synchroniser=tensorbow.SSGD(ema_decay=average)
        ) as session,
    ):
        stock.run(program.init)
        session.run(program.init)
        for iteration in range(1 if approximate else 3):
            gradients = normal(iteration, LEARNERS, *program.gradient.shape[1:])
            gradients = gradients.astype(dtype.as_numpy_dtype)
            ops = ops_of(session, program.update, {program.gradient: gradients})
            assert sum("TensorBow" in o and "Apply" in o for o in ops) == 1
            assert "TensorBowReduceGradient" not in ops
            stock.run(program.update, {program.gradient: mean_of(gradients)[np.newaxis]})
            for variable in variables:
                value = stock.run(variable)
                if approximate:
                    assert_replicas(
                        session, variable, value, compare=lambda a, e: assert_within(2, a, e)
                    )
                else:
                    assert_replicas(session, variable, value)
            if average:  # z follows the replicas
                replica = session.learner_value(program.w, 0)
                z = session.central(program.w, averaged=False)
                np.testing.assert_array_equal(z, replica)
                assert np.any(session.central(program.w) != replica)


@pytest.mark.parametrize(
    ("op", "inner", "shape", "use_resource"),
    [
        (op, *size, use_resource)
        for size, op, use_resource in in_turn(
            [(1, NARROW), (4, NARROW), (300, NARROW), *((4, shape) for shape in WIDE)],
            ["ApplyMomentum", "ApplyAdagradV2"],
            [True, False],
        )
    ],
)
def test_product_is_summed_over_all_rows(op, inner, shape, use_resource):
    """A dense layer's gradient: the mean over learners of aᵀ·b, summed by every learner."""
    update = Update(op, use_resource, inner=inner, shape=shape)
    variables = [update.w, *update.slots]
    outcomes = []
    for _ in range(2):
        with (
            tf1.Session(graph=update.graph) as stock,
            programs.session_of_parts(
                update.graph, LEARNERS, synchroniser=tensorbow.SSGD()
            ) as session,
        ):
            stock.run(update.init)
            session.run(update.init)
            for iteration in range(2):
                a, b = (normal(iteration + k, LEARNERS, *s) for k, s in enumerate(update.shapes))
                b /= np.float32(np.sqrt(inner))
                products, inputs = fused_in_updates(
                    session, update.train, dict(zip(update.factors, (a, b)))
                )
                assert (products, inputs) == (1, 0)
                mean = np.einsum("jki,jkc->ic", a, b, dtype=np.float64) / LEARNERS
                stock.run(update.train, {update.product: mean.astype(np.float32)})
            for variable in variables:
                assert_replicas(session, variable, session.learner_value(variable, 0))
                np.testing.assert_allclose(
                    session.run(variable), stock.run(variable), rtol=2e-5, atol=2e-5
                )
            outcomes.append(session.run(variables))
    for one, other in zip(*outcomes):
        np.testing.assert_array_equal(one, other)


def test_gradient_of_the_inputs_is_computed_apart():
    """No learner reads all of the weights in a shared update."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, ROWS])
        w = tf1.get_variable("w", initializer=tf.constant(normal(0, ROWS, COLUMNS)))
        y = tf.matmul(x, w)
        dw, dx = tf.gradients(tf.reduce_sum(y * y) / 2, [w, x])
        train = tf1.train.GradientDescentOptimizer(1e-3).apply_gradients([(dw, w)])
        init = tf1.global_variables_initializer()
    rows = normal(1, 4, ROWS)
    with programs.session_of_parts(graph, 2, synchroniser=tensorbow.SSGD()) as session:
        session.run(init)
        assert fused_in_updates(session, train, {x: rows}) == (1, 0)
        before = session.learner_value(w, 0)
        gradient, _ = session.run([dx, train], {x: rows})
    np.testing.assert_allclose(gradient, rows @ before @ before.T, rtol=1e-3, atol=1e-2)


@KINDS
def test_updates_without_a_fused_op_take_part(use_resource, one_thread):
    """FTRL has none: its gradient is averaged before it, in any order of names."""
    graph = tf.Graph()
    with graph.as_default():
        gradient = tf1.placeholder(tf.float32, [None, 20_000])
        variables, steps = [], []
        for name, make in (
            ("a", lambda: tf1.train.MomentumOptimizer(0.1, 0.9)),
            ("b", lambda: tf1.train.FtrlOptimizer(0.1)),
            ("c", lambda: tf1.train.AdamOptimizer(0.1)),
            ("d", lambda: tf1.train.FtrlOptimizer(0.2)),
        ):
            variable = tf1.get_variable(
                name, initializer=tf.zeros([20_000]), use_resource=use_resource
            )
            optimiser = make()
            steps.append(optimiser.apply_gradients([(gradient[0] * (1 + len(steps)), variable)]))
            variables += [
                variable,
                *(optimiser.get_slot(variable, s) for s in optimiser.get_slot_names()),
            ]
        train, init = tf.group(steps), tf1.global_variables_initializer()
    for average in (None, 0.9):
        with (
            tf1.Session(graph=graph, config=one_thread) as stock,
            programs.session_of_parts(
                graph, LEARNERS, synchroniser=tensorbow.SSGD(ema_decay=average)
            ) as session,
        ):
            stock.run(init)
            session.run(init)
            for iteration in range(3):
                gradients = normal(iteration, LEARNERS, 20_000)
                ops = ops_of(session, train, {gradient: gradients})
                assert ops.count("TensorBowReduceGradient") == 2
                assert sum("TensorBow" in o and "Apply" in o for o in ops) == 2
                stock.run(train, {gradient: mean_of(gradients)[np.newaxis]})
            for variable in variables:
                value = stock.run(variable)
                replica = session.learner_value(variable, 0)
                np.testing.assert_allclose(replica, value, rtol=1e-5, atol=1e-6)
                assert_replicas(session, variable, replica)
                if average and variable.op.name in "abcd":
                    z = session.central(variable, averaged=False)
                    np.testing.assert_array_equal(z, replica)


@pytest.mark.parametrize("failing", ["a", "b"])
def test_nothing_is_updated_before_all_gradients_are_there(failing):
    graph = tf.Graph()
    with graph.as_default():
        gradient = tf1.placeholder(tf.float32, [None, 20_000])
        variables, steps = [], []
        for name in ("a", "b"):
            variables.append(tf1.get_variable(name, initializer=tf.zeros([20_000])))
            mine = gradient[0]
            if name == failing:
                mine = tf1.check_numerics(mine, "not a gradient")
            optimiser = tf1.train.GradientDescentOptimizer(0.1)
            steps.append(optimiser.apply_gradients([(mine, variables[-1])]))
        train, init = tf.group(steps), tf1.global_variables_initializer()
    good = normal(0, 2, 20_000)
    bad = good.copy()
    bad[1, 7] = np.nan  # the second learner's
    with programs.session_of_parts(graph, 2, synchroniser=tensorbow.SSGD()) as session:
        session.run(init)
        for _ in range(10):
            with pytest.raises(tf.errors.InvalidArgumentError, match="not a gradient"):
                session.run(train, {gradient: bad})
            for variable in variables:
                assert_replicas(session, variable, np.zeros(20_000, np.float32), learners=2)
        session.run(train, {gradient: good})
        for variable in variables:
            expected = np.float32(0) - mean_of(good) * np.float32(0.1)
            assert_replicas(session, variable, expected, learners=2)


def test_last_iteration_with_fewer_learners():
    """The mean is over learners with a task; the others receive its result."""
    graph = tf.Graph()
    with graph.as_default():
        gradient = tf1.placeholder(tf.float32, [None, 40_000])
        w = tf1.get_variable("w", initializer=tf.zeros([40_000]))
        optimiser = tf1.train.MomentumOptimizer(0.1, 0.5)
        train = optimiser.apply_gradients([(gradient[0], w)])
        slot, init = optimiser.get_slot(w, "momentum"), tf1.global_variables_initializer()
    gradients = normal(0, 2 * LEARNERS - 1, 40_000)
    with (
        tf1.Session(graph=graph) as stock,
        programs.session_of_parts(
            graph,
            LEARNERS,
            synchroniser=tensorbow.SSGD(ema_decay=0.9),
            batch_size=1,
            scheduling="round_robin",
        ) as session,
    ):
        stock.run(init)
        session.run(init)
        session.run(train, {gradient: gradients})
        assert session.iterations == 2
        for part in (gradients[:LEARNERS], gradients[LEARNERS:]):
            stock.run(train, {gradient: mean_of(part)[np.newaxis]})
        for variable in (w, slot):
            assert_replicas(session, variable, stock.run(variable))
        np.testing.assert_array_equal(session.central(w, averaged=False), stock.run(w))
