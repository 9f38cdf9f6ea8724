"""Every update of a trained variable gets the exact correction, fused into its op or not.

Expected values are those of TensorFlow's own op in a stock session, one learner's weights at a
time. SMA's formulas are computed in NumPy, in the accumulation type, operation by operation: w ←
(w + u) − α(w − z) and z ← z + Σ α(w − z) + μ(z − z_prev). Bits must agree.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from stock_sessions import loader

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1
raw = tf.raw_ops

ALPHA, MOMENTUM, LEARNERS = 0.3, 0.5, 2
ROWS, COLUMNS = 7001, 5  # 35005 elements: three slices, the last one short

# Per op: its slots' initial values, and its inputs after the variables (a number is a
# scalar, "g" the gradient), attributes.
APPLY = {
    "ApplyGradientDescent": ([], dict(alpha=0.1, delta="g"), {}),
    "ApplyMomentum": ([("accum", 0.0)], dict(lr=0.1, grad="g", momentum=0.9), {}),
    "ApplyMomentum:nesterov": (
        [("accum", 0.0)],
        dict(lr=0.1, grad="g", momentum=0.9),
        dict(use_nesterov=True),
    ),
    "ApplyKerasMomentum": ([("accum", 0.0)], dict(lr=0.1, grad="g", momentum=0.9), {}),
    "ApplyKerasMomentum:nesterov": (
        [("accum", 0.0)],
        dict(lr=0.1, grad="g", momentum=0.9),
        dict(use_nesterov=True),
    ),
    "ApplyAdam": (
        [("m", 0.0), ("v", 0.0)],
        dict(
            beta1_power=0.81,
            beta2_power=0.998,
            lr=0.1,
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-7,
            grad="g",
        ),
        {},
    ),
    "ApplyAdam:nesterov": (
        [("m", 0.0), ("v", 0.0)],
        dict(
            beta1_power=0.81,
            beta2_power=0.998,
            lr=0.1,
            beta1=0.9,
            beta2=0.999,
            epsilon=1e-7,
            grad="g",
        ),
        dict(use_nesterov=True),
    ),
    "ApplyRMSProp": (
        [("ms", 1.0), ("mom", 0.0)],
        dict(lr=0.1, rho=0.9, momentum=0.5, epsilon=1e-6, grad="g"),
        {},
    ),
    "ApplyAdagrad": ([("accum", 0.1)], dict(lr=0.1, grad="g"), {}),
    "ApplyAdagrad:frozen": ([("accum", 0.1)], dict(lr=0.1, grad="g"), dict(update_slots=False)),
    "ApplyAdagradV2": ([("accum", 0.1)], dict(lr=0.1, epsilon=1e-3, grad="g"), {}),
}


def of_op(name, use_resource, sparse=False):
    """Returns a function (variable, gradient, indices) → the update, and its slots."""
    slots, inputs, attributes = APPLY[name]
    op = name.split(":")[0]
    if sparse:
        op = "Sparse" + op
    if use_resource:
        op = "Resource" + op
    if not hasattr(raw, op):
        pytest.skip(f"TensorFlow has no {op}")

    def handle(variable):
        return variable.handle if use_resource else variable._ref()

    def update(variable, gradient, indices):
        arguments = {"var": handle(variable), **attributes}
        made = []
        for slot, initial in slots:
            made.append(
                tf1.get_variable(
                    slot,
                    initializer=tf.fill(
                        variable.shape, tf.cast(initial, variable.dtype.base_dtype)
                    ),
                    trainable=False,
                    use_resource=use_resource,
                )
            )
            arguments[slot] = handle(made[-1])
        for key, value in inputs.items():
            arguments[key] = (
                gradient if value == "g" else tf.constant(value, variable.dtype.base_dtype)
            )
        if sparse:
            arguments["indices"] = indices
        return getattr(raw, op)(**arguments), made

    return update


def written_by_hand(form):
    """Returns the same for programs that assign the variable themselves."""

    def update(variable, gradient, indices):
        if form == "assign":
            return variable.assign(variable * 0.9 - gradient), []
        if form == "assign_add":
            return variable.assign_add(gradient - 0.1 * variable), []
        if form == "assign_sub":
            return variable.assign_sub(gradient + 0.1 * variable), []
        if form in ("scatter_add", "scatter_sub"):
            rows = tf.gather(variable, indices)
            slices = tf.IndexedSlices(0.1 * gradient + 0.1 * rows, indices)
            return getattr(variable, form)(slices), []
        if form == "twice":  # as weight decay does: two ops write the variable
            with tf.control_dependencies([variable.assign_sub(0.1 * variable)]):
                return variable.assign_sub(gradient), []
        if form == "cond":  # the update is made in some tasks only
            return tf.cond(
                tf.reduce_sum(gradient) > 0,
                lambda: tf.identity(variable.assign_sub(gradient + 0.1 * variable)),
                lambda: tf.identity(variable),
            ), []
        raise ValueError(form)

    return update


def by_optimiser(make):
    """Returns the same for tf.compat.v1's optimisers, given IndexedSlices."""

    def update(variable, gradient, indices):
        optimiser = make()
        slices = tf.IndexedSlices(gradient + 0.1 * tf.gather(variable, indices), indices)
        step = optimiser.apply_gradients([(slices, variable)])
        return step, optimiser.variables()

    return update


class Program:
    """One variable; feeds: `gradient` [learners, …] and `indices` [learners, rows].

    `sparse`: the number of rows that have a gradient, or None for all.
    """

    def __init__(self, update, dtype, use_resource, sparse, index_type=tf.int32):
        self.graph = tf.Graph()
        with self.graph.as_default():
            initial = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
            self.w = tf1.get_variable(
                "w", initializer=tf.constant(initial, dtype), use_resource=use_resource
            )
            rows = ROWS if sparse is None else sparse
            self.gradient = tf1.placeholder(dtype, [None, rows, COLUMNS])
            self.indices = tf1.placeholder(index_type, [None, rows])
            self.update, self.slots = update(self.w, self.gradient[0], self.indices[0])
            self.init = tf1.global_variables_initializer()


def random_feeds(program, iteration, dtype):
    random = np.random.default_rng(iteration + 1)
    rows = program.gradient.shape[1]
    gradient = random.standard_normal((LEARNERS, rows, COLUMNS)).astype(dtype.as_numpy_dtype)
    indices = np.stack([random.permutation(ROWS)[:rows] for _ in range(LEARNERS)])
    if 5 < rows < ROWS:
        indices[:, 5] = indices[:, 2]  # twice
        indices[:, 4] = (indices[:, 3] + 1) % ROWS  # neighbours
        indices[:, :2] = [0, ROWS - 1]
    return gradient, indices


def assert_within(ulps, actual, expected):
    eps = float(ml_dtypes.finfo(expected.dtype).eps)
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    assert np.all(np.abs(actual - expected) <= ulps * eps * np.maximum(np.abs(expected), 1))


def sma(centre, sync_period=1):
    """Returns averaging with that centre; the lagging one with momentum."""
    momentum = MOMENTUM if centre == "lagging" else None
    return tensorbow.SMA(ALPHA, centre, momentum, sync_period)


def check(
    update,
    dtype,
    use_resource,
    fused,
    sparse=None,
    index_type=tf.int32,
    iterations=4,
    sync_period=1,
    ulps=0,
    centre="current",
):
    program = Program(update, dtype, use_resource, sparse, index_type)
    variables = [program.w, *program.slots]
    accumulate = np.float64 if dtype == tf.float64 else np.float32
    storage = dtype.as_numpy_dtype
    alpha, momentum = accumulate(ALPHA), accumulate(MOMENTUM)
    one_thread = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    options = tensorbow.Options(
        proof="off",
        learners_per_device=LEARNERS,
        synchroniser=sma(centre, sync_period),
    )
    with (
        tf1.Session(graph=program.graph, config=one_thread) as stock,
        tensorbow.TensorBowSession(graph=program.graph, options=options) as session,
    ):
        stock.run(program.init)
        session.run(program.init)
        start = stock.run(variables)
        load = loader(variables, stock)
        state = [[v.copy() for v in start] for _ in range(LEARNERS)]  # [learner][variable]
        z = start[0].astype(accumulate)
        z_prev = z.copy()

        def mean_of_replicas():
            values = [own[0].astype(accumulate) for own in state]
            return (values[0] + values[1]) / accumulate(2)

        for iteration in range(iterations):
            gradient, indices = random_feeds(program, iteration, dtype)
            feeds = {program.gradient: gradient}
            if sparse is not None:
                feeds[program.indices] = indices
            metadata = tf1.RunMetadata()
            session.run(
                program.update,
                feeds,
                options=tf1.RunOptions(output_partition_graphs=True),
                run_metadata=metadata,
            )
            ours = [n.op for g in metadata.partition_graphs for n in g.node]
            assert any(op.startswith("TensorBow") for op in ours) == fused
            due = (iteration + 1) % sync_period == 0
            if centre == "current":
                z = mean_of_replicas()
            corrections = []
            for j in range(LEARNERS):
                load(*state[j])
                own = {program.gradient: gradient[j : j + 1]}
                if sparse is not None:
                    own[program.indices] = indices[j : j + 1]
                stock.run(program.update, own)
                before = state[j][0].astype(accumulate)
                state[j] = stock.run(variables)
                c = alpha * (before - z)
                if due:
                    state[j][0] = (state[j][0].astype(accumulate) - c).astype(storage)
                corrections.append(c)
            z_next = z + (corrections[0] + corrections[1]) + momentum * (z - z_prev)
            if centre == "current":
                z = mean_of_replicas()
            elif due:
                z_prev, z = z, z_next
            for j in range(LEARNERS):
                for variable, value in zip(variables, state[j]):
                    actual = session.learner_value(variable, j)
                    if ulps:
                        assert_within(ulps, actual, value)
                    else:
                        np.testing.assert_array_equal(actual, value)
            if ulps:
                continue
            np.testing.assert_array_equal(session.run(program.w), z.astype(storage))
    assert sparse == 0 or np.any(state[0][0] != state[1][0])


CENTRES = ["current", "lagging"]
BOTH = list(itertools.product(CENTRES, [True, False]))
TYPES = [tf.float32, tf.float64, tf.float16, tf.bfloat16]
KINDS = pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])


def name_of(value):
    """Returns a readable name of a test's argument."""
    if isinstance(value, tf.DType):
        return value.name
    if isinstance(value, bool):
        return "resource" if value else "reference"
    return None


@pytest.mark.parametrize(
    "op, dtype, centre, use_resource", in_turn(APPLY, TYPES, BOTH), ids=name_of
)
def test_dense_update_is_fused_and_exact(op, centre, use_resource, dtype):
    use_resource |= "Keras" in op  # which is of resources only
    if op.split(":")[0] == "ApplyAdagrad" and dtype != tf.float64:
        # TensorFlow's reciprocal square root is an approximation and a Newton step. For a 16-bit
        # number it is rounded once in a packet and twice outside of one.
        exactness = dict(iterations=1, ulps=2)
    else:
        exactness = dict()
    check(of_op(op, use_resource), dtype, use_resource, fused=True, centre=centre, **exactness)


SPARSE = [n for n in APPLY if not n.startswith(("ApplyGradientDescent", "ApplyAdam", "ApplyKeras"))]
SPARSE += ["scatter_add", "scatter_sub"]
INDICES = list(itertools.product([tf.int32, tf.int64], [True, False]))


def sparse_update(name, use_resource):
    """Returns the same, of some rows."""
    if name.startswith("scatter"):
        return written_by_hand(name)
    return of_op(name, use_resource, sparse=True)


@pytest.mark.parametrize(
    "name, dtype, index_type, use_resource", in_turn(SPARSE, TYPES, INDICES), ids=name_of
)
def test_sparse_update_is_fused_and_exact(name, dtype, index_type, use_resource):
    if dtype == tf.bfloat16 and "RMSProp" in name:
        pytest.skip("TensorFlow has no such kernel")
    update = sparse_update(name, use_resource)
    check(update, dtype, use_resource, fused=True, sparse=11, index_type=index_type)


@pytest.mark.parametrize("name, use_resource", in_turn(SPARSE, [True, False]), ids=name_of)
def test_sparse_update_of_no_rows_still_corrects(name, use_resource):
    check(sparse_update(name, use_resource), tf.float32, use_resource, fused=True, sparse=0)


@pytest.mark.parametrize(
    "sparse, centre, use_resource", in_turn([None, 11], CENTRES, [True, False]), ids=name_of
)
def test_updates_are_plain_between_corrections(use_resource, centre, sparse):
    update = of_op("ApplyMomentum", use_resource, sparse=sparse is not None)
    seldom = dict(sync_period=3, iterations=7)
    check(update, tf.float32, use_resource, fused=True, sparse=sparse, centre=centre, **seldom)


OPTIMISERS = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.1),
    "adam": lambda: tf1.train.AdamOptimizer(0.1),
}


@pytest.mark.parametrize(
    "optimiser, centre, use_resource", in_turn(OPTIMISERS, CENTRES, [True, False]), ids=name_of
)
def test_optimiser_given_indexed_slices_is_fused_and_exact(centre, optimiser, use_resource):
    update = by_optimiser(OPTIMISERS[optimiser])
    check(update, tf.float32, use_resource, fused=True, sparse=11, centre=centre)


@pytest.mark.parametrize("name, use_resource", in_turn(SPARSE, [False, True]), ids=name_of)
def test_index_outside_of_the_variable_is_stocks_error_and_changes_nothing(name, use_resource):
    program = Program(sparse_update(name, use_resource), tf.float32, use_resource, sparse=11)
    gradient, indices = random_feeds(program, 0, tf.float32)
    good = {program.gradient: gradient, program.indices: indices}
    indices = indices.copy()
    indices[1, 7] = ROWS  # the second learner's
    bad = {program.gradient: gradient, program.indices: indices}
    with tf1.Session(graph=program.graph) as stock:
        stock.run(program.init)
        own = {program.gradient: gradient[1:], program.indices: indices[1:]}
        with pytest.raises(tf.errors.InvalidArgumentError) as expected:
            stock.run(program.update, own)
    options = tensorbow.Options(
        proof="off", learners_per_device=LEARNERS, synchroniser=sma("lagging")
    )
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        for _ in range(3):
            session.run(program.update, good)
        before = session.run(program.w)
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            session.run(program.update, bad)
        assert error.value.message.split("\n")[0] == expected.value.message.split("\n")[0]
        np.testing.assert_array_equal(session.run(program.w), before)
        for j in range(LEARNERS):  # replicas restart from z
            np.testing.assert_array_equal(session.learner_value(program.w, j), before)
        session.run(program.update, good)
        session.run(program.update, good)
        assert np.any(session.run(program.w) != before)


def test_value_read_before_a_sparse_update_is_not_changed_by_it():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 1])
        w = tf1.get_variable("w", initializer=tf.constant([[1.0], [2.0]]))
        view = tf.reshape(w.read_value(), [1, 2], name="view")
        with tf.control_dependencies([view]):
            slices = tf.IndexedSlices(tf.reduce_mean(x) * w[1:], [1])
            update = w.scatter_sub(slices)
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(
        proof="off",
        learners_per_device=2,
        synchroniser=tensorbow.SMA(),
        combine={"view:0": "stack"},
    )
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        w_0, w_1 = np.array([1.0, 2.0]), np.array([1.0, 2.0])
        for _ in range(3):
            values, _ = session.run([view, update], {x: [[0.25], [0.5]]})
            np.testing.assert_allclose(values, [[w_0], [w_1]], rtol=1e-6)
            z = (w_0 + w_1) / 2
            c_0, c_1 = 0.5 * (w_0 - z), 0.5 * (w_1 - z)
            w_0, w_1 = w_0 * [1, 0.75] - c_0, w_1 * [1, 0.5] - c_1
            np.testing.assert_allclose(session.learner_value(w, 0)[:, 0], w_0, rtol=1e-6)
            np.testing.assert_allclose(session.learner_value(w, 1)[:, 0], w_1, rtol=1e-6)


@pytest.mark.parametrize(
    "form, dtype, use_resource",
    in_turn(["assign", "assign_add", "assign_sub"], TYPES, [True, False]),
    ids=name_of,
)
def test_assignment_is_fused_and_exact(form, use_resource, dtype):
    check(written_by_hand(form), dtype, use_resource, fused=True)


@KINDS
def test_two_writes_of_one_variable_are_corrected_once(use_resource):
    check(written_by_hand("twice"), tf.float32, use_resource, fused=use_resource)


def test_conditional_update_is_exact():
    check(written_by_hand("cond"), tf.float32, True, fused=False, iterations=6)


def test_value_fetched_beside_the_update_is_not_changed_by_it():
    """A fetch that shares the variable's buffer keeps the value that was read."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 1])
        w = tf1.get_variable("w", initializer=tf.constant([1.0, 2.0]))
        view = tf.reshape(w.read_value(), [1, 2], name="view")
        with tf.control_dependencies([view]):
            update = w.assign_sub(tf.reduce_mean(x) * w)
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(
        proof="off",
        learners_per_device=2,
        synchroniser=tensorbow.SMA(),
        combine={"view:0": "stack"},
    )
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        w_0, w_1 = np.array([1.0, 2.0]), np.array([1.0, 2.0])
        for _ in range(3):
            values, _ = session.run([view, update], {x: [[0.25], [0.5]]})
            np.testing.assert_allclose(values, [[w_0], [w_1]], rtol=1e-6)
            z = (w_0 + w_1) / 2
            c_0, c_1 = 0.5 * (w_0 - z), 0.5 * (w_1 - z)
            w_0, w_1 = w_0 * 0.75 - c_0, w_1 * 0.5 - c_1
            np.testing.assert_allclose(session.learner_value(w, 0), w_0, rtol=1e-6)
            np.testing.assert_allclose(session.learner_value(w, 1), w_1, rtol=1e-6)


def test_wrong_gradient_shape_is_an_error_and_changes_nothing():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, None])
        w = tf1.get_variable("w", initializer=tf.zeros([3]))
        update = raw.ResourceApplyGradientDescent(var=w.handle, alpha=0.1, delta=x[0])
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(proof="off", learners_per_device=2)
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        session.run(update, {x: np.ones((2, 3))})
        before = session.run(w)
        with pytest.raises(tf.errors.InvalidArgumentError, match="do not have the same shape"):
            session.run(update, {x: np.ones((2, 4))})
        np.testing.assert_array_equal(session.run(w), before)
        session.run(update, {x: np.ones((2, 3))})


def test_fused_op_works_on_a_learner_only():
    """Programs that use it get a clear error from a stock session."""
    graph = tf.Graph()
    with graph.as_default():
        w = tf1.get_variable("w", initializer=tf.zeros([3]))
        node = graph.create_op(
            "TensorBowResourceApplyGradientDescent",
            [w.handle, tf.constant(0.1), tf.ones([3])],
            [],
            attrs={
                "member": tf1.AttrValue(i=0),
                "num_factors": tf1.AttrValue(i=0),
                "num_rows": tf1.AttrValue(i=0),
            },
        )
        with tf1.Session() as stock:
            stock.run(w.initializer)
            with pytest.raises(tf.errors.FailedPreconditionError, match="learner only"):
                stock.run(node)
