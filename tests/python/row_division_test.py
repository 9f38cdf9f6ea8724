"""The types of its rows decide who executes a learning run; its step is always stock's.

One table has the type and the exchanges of each loss, which explain() gives without training.
Typical programs are trained on two and three learners, beside a stock session.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.python import divided_programs as programs
from tests.python.messages import without_lines
from tests.python.programs import control_flow
from tests.row_types import adversarial

tf1 = tf.compat.v1
mean, total, square = tf.reduce_mean, tf.reduce_sum, tf.square


def learners(count=2, **more):
    return tensorbow.Options(learners_per_device=count, **more)


# ------------------------------------------------------------------------------- claims

MEAN, SUM, SAME = "mean over rows", "sum over rows", "same on all learners"

# The type of each loss of tests/row_types/adversarial.py, and the number of tensors that learners
# exchange besides the gradients.
DIVIDED = {
    "a mean": (MEAN, 0),
    "a sum": (SUM, 0),
    "a mean and a sum": (MEAN, 0),
    "a sum by the number of rows": (MEAN, 0),
    "a sum by its square": ("sum over rows, scaled by r^2", 0),
    "a scalar added to a mean": (SAME, 1),
    "ramp": (MEAN, 1),
    "flooding": (SAME, 1),
    "a floor": (SAME, 1),
    "root of the mean": (SAME, 1),
    "product of means": (SAME, 2),
    "mean by a stopped sum": (MEAN, 1),
    "centred": (MEAN, 2),
    "fused": (MEAN, 0),
    "layer norm": (MEAN, 0),
    "moment matching": (SAME, 1),
    "norm of all": (SAME, 1),
    "normalised rows": (MEAN, 0),
    "clipped rows": (MEAN, 0),
    "largest": ("maximum over rows", 2),
    "largest of rows": (MEAN, 0),
    "logsumexp": (SAME, 2),
    "softmax over rows, by hand": (SUM, 1),
    "softmax of rows": (MEAN, 0),
    "any of them": (MEAN, 1),
    "masked mean": (SUM, 1),
    "masked, without nan": (SUM, 1),
    "boolean mask": (SUM, 1),
    "boolean mask, sum": (SUM, 0),
    "dice": (SAME, 2),
    "classes by their number": (MEAN, 1),
    "harder than the mean": (SUM, 1),
    "own column": (MEAN, 0),
    "running sum of columns": (MEAN, 0),
    "transposed and flat": (MEAN, 0),
    "one below the other": (MEAN, 0),
    "a stack of means": (SAME, 2),
    "gram of columns": (SAME, 1),
    "n to a power": (MEAN, 0),
    "convolution": (MEAN, 0),
    "per pixel of all": (MEAN, 1),
    "looked up": (MEAN, 0),
    "dropped out": (MEAN, 0),
    "noise on weights": (MEAN, 0),
    "penalty on each row": (MEAN, 0),
    "norm of a mean's gradient": (SAME, 1),
    "a fixed number of steps": (MEAN, 0),
    "if a flag": (MEAN, 0),
    "if a mean": (MEAN, 1),
    "chosen by a mean": (SAME, 3),
}

# The operation in the warning if learners do not exchange rows, and the reason.
MIXED = {
    "softmax over rows": r"Softmax 'Softmax' works along the rows",
    "hard examples": r"TopKV2 'TopKV2' works along the rows",
    "place as a weight": r"Mul 'mul' computes with row numbers",
    "rows by rows": r"GatherV2 'GatherV2' selects rows by indices that rows hold",
    "neighbours": r"StridedSlice 'strided_slice' selects rows by their positions",
    "halves": r"StridedSlice 'strided_slice_1' cuts rows by the number of all rows",
    "reversed": r"ReverseV2 'ReverseV2' reorders the rows",
    "running sum": r"Cumsum 'Cumsum' works along the rows",
    "two halves": r"Reshape 'Reshape' merges the rows with an axis before them",
    "repeated rows": r"Tile 'Tile' repeats rows",
    "gram": r"MatMul 'MatMul_1' combines every row with every other",
    "each with each": r"Sub 'sub' combines rows with rows on another axis or of another selection",
}


def explained(name, **options):
    """Returns the explanation of a step by that loss, its loss' name, and the warnings."""
    random = np.random.default_rng(1)
    with control_flow(1), tf.Graph().as_default():
        feeds = {
            tf1.placeholder(tf.float32, [None, 3], "x"): random.standard_normal((12, 3)),
            tf1.placeholder(tf.float32, [None], "y"): random.standard_normal(12),
            tf1.placeholder(tf.int32, [None], "c"): random.integers(0, 3, 12),
            tf1.placeholder(tf.float32, [None, 4, 4, 1], "image"): np.ones((12, 4, 4, 1)),
            tf1.placeholder(tf.int32, [None, 2], "ids"): random.integers(0, 6, (12, 2)),
            tf1.placeholder(tf.bool, [], "flag"): True,
            tf1.placeholder(tf.float32, [], "rate"): 0.7,
        }
        x, y, c, image, ids, flag, rate = feeds
        w = tf1.get_variable("w", [3, adversarial.UNITS], use_resource=False)
        table = tf1.get_variable("table", [6, 2], use_resource=False)
        h = tf.tanh(tf.matmul(x, w))
        loss = adversarial.LOSSES[name](adversarial.Batch(h, y, c, image, ids, table, flag, rate))
        train = programs.train_op(loss)
        session = tensorbow.TensorBowSession(options=learners(**options))
        with session, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            explanation = session.explain([train, loss], feeds)
    return explanation, loss.name, [str(w.message) for w in caught]


@pytest.mark.parametrize("name", DIVIDED)
def test_rows_are_divided_by_their_types(name):
    explanation, loss, said = explained(name)
    kind, exchanges = DIVIDED[name]
    assert explanation.types[loss] == explanation.fetches[loss] == kind
    assert len(explanation.exchanges) == exchanges
    assert (explanation.learners, explanation.division, explanation.why) == (2, "exact", "")
    assert said == []


@pytest.mark.parametrize("name", MIXED)
def test_all_rows_are_mixed_on_every_learner(name):
    explanation, _, said = explained(name)
    assert (explanation.learners, explanation.division, explanation.why) == (2, "exact", "")
    assert said == []


ONE_LEARNERS = {
    "until small on average": r"Mean 'while/Mean' is to be exchanged in a conditional or a loop",
    "shuffled": r"RandomShuffle 'RandomShuffle' reorders the rows",
    "masks of one another": r"Mul 'mul' combines rows with rows on another axis or of another",
    "ones of n by n": r"would compute the model from all rows on every learner",
}


@pytest.mark.parametrize("name", [*MIXED, *ONE_LEARNERS])
def test_one_learner_trains_where_rows_are_not_exchanged_and_the_operation_is_named(name):
    averaged = {"synchroniser": tensorbow.SMA()} if name in MIXED else {}
    explanation, _, said = explained(name, **averaged)
    assert (explanation.learners, explanation.division) == (1, "")
    assert (MIXED | ONE_LEARNERS)[name] in explanation.why
    assert [without_lines(text) for text in said] == [
        f"A learning run is executed by one learner only: {explanation.why}"
    ]


def test_with_averaged_models_nothing_is_exchanged():
    sma = tensorbow.SMA()
    for name, division in (("a mean", "exact"), ("root of the mean", "by own rows")):
        explanation, _, said = explained(name, synchroniser=sma)
        assert (explanation.learners, explanation.division) == (2, division), name
        assert (explanation.exchanges, said) == ([], [])


# --------------------------------------------------------------------------- end to end


def run(build, data, steps, options=None, train=programs.train_op, seed=3, fetch=()):
    """Trains; returns all variables by name, all fetches, the last explanation, warnings."""
    random = np.random.RandomState(seed)
    with tf.Graph().as_default(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tf1.set_random_seed(1)
        program = build()
        wanted = [train(program.loss), program.loss] + [program.fetches[name] for name in fetch]
        initialise = tf1.global_variables_initializer()
        variables = {v.op.name: v for v in tf1.global_variables()}
        if options is None:
            session = tf1.Session()
        else:
            session = tensorbow.TensorBowSession(options=options)
        with session:
            session.run(initialise)
            values, explanation = [], None
            for _ in range(steps):
                feeds = dict(zip(program.feeds, data(random)))
                values.append(session.run(wanted, feeds)[1:])
            trained = session.run(variables)
            if options is not None:
                explanation = session.explain(wanted, feeds)
                assert session.learning_tasks == steps * explanation.learners
    said = [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]
    return trained, values, explanation, said


def assert_same_weights(ours, stock, rtol=2e-4):
    assert ours.keys() == stock.keys()
    for name, value in stock.items():
        scale = np.abs(value).max()
        np.testing.assert_allclose(ours[name], value, rtol=rtol, atol=rtol * scale, err_msg=name)


def assert_stocks(build, data, count, steps, rtol=2e-4, executed_by=None, **more):
    """Trains on `count` learners to stock's variables and fetches; returns the explanation."""
    stock, wanted, _, _ = run(build, data, steps, **more)
    ours, values, explanation, said = run(build, data, steps, learners(count), **more)
    assert explanation.learners == (executed_by or count), explanation.why
    assert len(said) == (explanation.learners == 1)
    assert_same_weights(ours, stock, rtol)
    for ours_now, stocks_now in zip(values, wanted):
        for a, b in zip(ours_now, stocks_now):
            assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
            scale = np.abs(np.asarray(b, float)).max()
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale)
    return explanation


COUNTS = pytest.mark.parametrize("count", [2, 3])


def slowly(loss):
    return tf1.train.GradientDescentOptimizer(0.002).minimize(loss)


@COUNTS
@pytest.mark.parametrize(
    "reduce, train",
    [(mean, programs.train_op), (programs.regularised, programs.train_op), (total, slowly)],
)
def test_means_and_sums(reduce, train, count):
    """32 rows on three learners are shards of 11, 11 and 10."""
    assert_stocks(programs.classifier(reduce=reduce), programs.plain, count, 6, train=train)


@COUNTS
@pytest.mark.parametrize("by", ["fed", "variable", "global_step", "cond"])
def test_a_term_that_begins_to_act_later(by, count):
    """λ·mean² with a λ that is zero in the first run, and one in all others."""
    runs = []

    def build():
        runs.clear()
        x, rate = tf1.placeholder(tf.float32, [None]), tf1.placeholder(tf.float32, [])
        w = tf1.get_variable("w", initializer=1.0)
        value = mean(w * x)
        step = tf1.train.get_or_create_global_step()
        if by == "cond":
            with control_flow(1):
                more = tf1.cond(rate > 0, lambda: square(value), lambda: tf.constant(0.0))
            return programs.Program([x, rate], value + more)
        weight = rate
        if by == "global_step":
            weight = tf.cast(tf.minimum(step, 1), tf.float32)
        if by == "variable":
            weight = tf1.get_variable("weight", initializer=0.0, trainable=False)
        return programs.Program([x, rate], value + weight * square(value))

    def data(random):
        runs.append(1)
        return [np.float32([1, 1, 3, 3, 5]), np.float32(len(runs) > 1)]

    def train(loss):
        step = tf1.train.get_global_step()
        update = tf1.train.GradientDescentOptimizer(0.02).minimize(loss, global_step=step)
        if by != "variable":
            return update
        with tf.control_dependencies([update]):
            weight = [v for v in tf1.global_variables() if v.op.name == "weight"]
            return tf1.assign(weight[0], 1.0).op

    explanation = assert_stocks(build, data, count, 4, train=train)
    assert len(explanation.exchanges) == 1


def regression(loss):
    def build():
        x, y = tf1.placeholder(tf.float32, [None, 4]), tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.zeros(4, "f"))
        return programs.Program([x, y], loss(tf.linalg.matvec(x, w) - y))

    return build


def linear_data(random):
    x = random.randn(32, 4).astype("f")
    return [x, (x @ np.float32([1, -2, 3, 0.5]) + np.abs(x[:, 0]) * random.randn(32)).astype("f")]


def dice(error):
    p, mask = tf.sigmoid(error), tf.cast(error > 0, tf.float32)
    return 1 - (2 * total(p * mask) + 1) / (total(p) + total(mask) + 1)


OF_THE_BATCH = {
    "flooding": lambda e: tf.abs(mean(square(e)) - 1.0) + 1.0,
    "floor": lambda e: tf.maximum(mean(square(e)), 1.0),
    "root": lambda e: tf.sqrt(mean(square(e))),
    "variance": lambda e: mean(square(e)) + tf.math.reduce_variance(e),
    "largest": lambda e: tf.reduce_max(square(e)) * 0.1 + mean(square(e)),
    "dice": dice,
    "harder than the mean": lambda e: (
        total(square(e) * tf.cast(tf.stop_gradient(square(e) > mean(square(e))), tf.float32)) / 32
    ),
}


@COUNTS
@pytest.mark.parametrize("name", OF_THE_BATCH)
def test_losses_of_the_whole_batch(name, count):
    """In 40 runs errors fall below 1: flooded and clamped losses begin to have an effect."""

    def train(loss):
        return tf1.train.GradientDescentOptimizer(0.05).minimize(loss)

    build = regression(OF_THE_BATCH[name])
    explanation = assert_stocks(build, linear_data, count, 40, train=train)
    assert explanation.exchanges != []


@COUNTS
def test_rows_whose_gradients_are_clipped_one_by_one(count):
    """Clips as in differentially private training; the bound has an effect only in later runs."""

    def build():
        x, y = tf1.placeholder(tf.float32, [None, 4]), tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.zeros(4, "f"))
        of_rows = 2 * (tf.linalg.matvec(x, w) - y)[:, None] * x
        gradient = mean(tf.clip_by_norm(of_rows, 3.0, axes=[1]), 0)
        return programs.Program([x, y], total(tf.stop_gradient(gradient) * w))

    runs = []

    def data(random):
        runs.append(1)
        x, y = linear_data(random)
        return [x, y if len(runs) % 10 > 4 else 0.1 * y]

    assert_stocks(build, data, count, 10)


@COUNTS
def test_counts_that_are_rarely_above_zero(count):
    def build():
        x, rare = tf1.placeholder(tf.float32, [None]), []
        w = tf1.get_variable("w", initializer=1.0)
        hit = tf.cast(x > 2.5, tf.float32)
        for name, value in (("sum", total(hit)), ("mean", mean(hit)), ("max", tf.reduce_max(x))):
            kept = tf1.get_variable(name, initializer=0.0, trainable=False)
            rare.append(kept.assign_add(value))
        return programs.Program([x], mean(w * x), dict(zip(("sum", "mean", "max"), rare)))

    rows = [[1, 1, 2, 2], [3, 1, 3, 3], [3, 3, 3, 3], [1, 1, 1, 1]]

    def data(random):
        return [np.float32(rows[random.randint(4)])]

    assert_stocks(build, data, count, 12, fetch=("sum", "mean", "max"))


@COUNTS
def test_batch_normalisation_by_hand_in_a_conditional(count):
    """Divided as in a stock session, or by one learner; never by each learner's moments."""

    def build():
        x, training = tf1.placeholder(tf.float32, [None, 6]), tf1.placeholder(tf.bool, [])
        h = tf.matmul(x, programs.weights("in", 6, 8))
        moving = [
            tf1.get_variable("mean", initializer=np.zeros(8, "f"), trainable=False),
            tf1.get_variable("variance", initializer=np.ones(8, "f"), trainable=False),
        ]

        def of_the_batch():
            moments = tf1.nn.moments(h, [0])
            kept = [m.assign(0.9 * m + 0.1 * value) for m, value in zip(moving, moments)]
            with tf.control_dependencies(kept):
                return [tf.identity(value) for value in moments]

        with control_flow(1):
            moments = tf1.cond(
                training, of_the_batch, lambda: [tf.identity(value) for value in moving]
            )
        h = tf.nn.relu(tf.nn.batch_normalization(h, *moments, None, None, 1e-3))
        error = tf.matmul(h, programs.weights("out", 8, 1))[:, 0] - x[:, 0] * x[:, 1]
        return programs.Program([x, training], mean(square(error)))

    def data(random):
        return [random.randn(32, 6).astype("f"), np.array(True)]

    stock, wanted, _, _ = run(build, data, 20)
    ours, values, explanation, said = run(build, data, 20, learners(count))
    assert len(said) == (explanation.learners == 1)
    assert_same_weights(ours, stock, 1e-3)
    np.testing.assert_allclose(values, wanted, rtol=1e-3)


@COUNTS
@pytest.mark.parametrize("clips", [False, True])
def test_noise_that_is_added_to_gradients_has_stocks_deviation(clips, count):
    """It is drawn once, not once per learner and averaged."""
    shape = (50, 40)

    def train(loss):
        optimiser = tf1.train.GradientDescentOptimizer(1.0)
        ((gradient, w),) = optimiser.compute_gradients(loss)
        if clips:
            gradient = tf.clip_by_norm(gradient, 1e6)  # never
        return optimiser.apply_gradients([(gradient + tf.random.normal(shape), w)])

    def build():
        x = tf1.placeholder(tf.float32, [None, 50])
        w = tf1.get_variable("w", initializer=np.zeros(shape, "f"))
        return programs.Program([x], 1e-3 * mean(tf.matmul(x, w)))

    def data(random):
        return [random.randn(32, 50).astype("f")]

    trained, _, explanation, _ = run(build, data, 16, learners(count), train)
    assert explanation.learners == count
    assert np.std(trained["w"]) / 4 == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("normalise", [programs.norm_by_moments, programs.fused_norm])
def test_moments_of_the_batch(normalise):
    explanation = assert_stocks(programs.classifier(normalise), programs.plain, 3, 6)
    assert explanation.division == "exact"


@pytest.mark.parametrize("count", [2, 4])
def test_masked_means(count):
    explanation = assert_stocks(programs.masked, programs.masked_data, count, 8)
    assert len(explanation.exchanges) == 1


def test_dropout_is_divided_without_a_word():
    build = programs.classifier(lambda h: tf1.nn.dropout(h, rate=0.5))
    _, _, explanation, said = run(build, programs.plain, 3, learners(2))
    assert (explanation.division, explanation.learners, said) == ("exact", 2, [])


def hardest(error):
    return mean(tf.nn.top_k(square(error), 8, name="hardest")[0])


ALL_ROWS = {
    "hard examples": (regression(hardest), linear_data),
    "in-batch softmax": (programs.contrastive, programs.only_x),
}


@pytest.mark.parametrize("name", ALL_ROWS)
def test_what_mixes_rows_is_trained_by_all_learners_as_stock(name):
    build, data = ALL_ROWS[name]
    for count in (2, 3):
        assert_stocks(build, data, count, 8, rtol=1e-5)


REFUSED = {
    "cumulative": (programs.cumulative, programs.cumulative_data, "would compute the model"),
    "stacked halves": (programs.stacked_halves, programs.stacked_data, "would compute the model"),
    "time in front": (programs.time_in_front, programs.sequences, "its rows cannot be divided"),
    "rows in the graph": (programs.rows_in_the_graph, programs.plain, "would compute the model"),
    "towers": (programs.towers, programs.plain, "would compute the model"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_one_learner_trains_as_stock_with_one_warning(name):
    build, data, named = REFUSED[name]
    for count in (2, 3):
        explanation = assert_stocks(build, data, count, 8, rtol=1e-5, executed_by=1)
        assert named in explanation.why


def test_entries_of_a_matrix_are_added_up_together():
    explanation = assert_stocks(programs.coordinates, programs.entries, 2, 8)
    assert len(explanation.exchanges) == 1


@COUNTS
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9])
def test_a_learner_has_no_lone_row_where_its_axis_would_be_squeezed(rows, count):
    """One of 2 learners would have one of 3 rows, [1, 4], and `tf.squeeze` would make it [4]."""

    def build():
        x = tf1.placeholder(tf.float32, [None, 3])
        h = tf.squeeze(tf.matmul(x, programs.weights("in", 3, 4))[:, None, :])
        return programs.Program([x], mean(total(square(h), 0)))

    def data(random):
        return [random.randn(rows, 3).astype("f")]

    stock, wanted, _, _ = run(build, data, 4, train=slowly)
    random = np.random.RandomState(3)
    with tf.Graph().as_default():
        program = build()
        fetches = [slowly(program.loss), program.loss]
        with tensorbow.TensorBowSession(options=learners(count)) as session:
            session.run(tf1.global_variables_initializer())
            values = []
            for _ in range(4):
                values.append(session.run(fetches, dict(zip(program.feeds, data(random))))[1:])
            trained = session.run({v.op.name: v for v in tf1.global_variables()})
            assert session.learning_tasks == 4 * max(1, min(count, rows // 2))
    np.testing.assert_allclose(values, wanted, rtol=1e-5)
    assert_same_weights(trained, stock)


def test_chosen_rows_whose_axis_may_be_squeezed_are_one_learners():
    def build():
        x, y = programs._inputs()
        h = tf.matmul(x, programs.weights("in", programs.COLUMNS, 4))
        return programs.Program([x, y], mean(square(tf.squeeze(tf.boolean_mask(h, y > 1)))))

    explanation = assert_stocks(build, programs.plain, 2, 4, executed_by=1)
    assert "removes the axis of rows if there is one" in explanation.why


def test_naming_the_feeds_overrides():
    with tf.Graph().as_default():
        name = programs.stacked_halves().feeds[0].name
    options = learners(2, shard=[name])
    _, _, explanation, said = run(programs.stacked_halves, programs.stacked_data, 2, options)
    assert (explanation.learners, explanation.division, said) == (2, "", [])


def test_without_types_feeds_are_divided_by_their_shapes():
    options = learners(2, proof="off")
    _, _, explanation, said = run(programs.stacked_halves, programs.stacked_data, 2, options)
    assert (explanation.learners, explanation.division, said) == (2, "", [])
    assert explanation.types == {}


# ----------------------------------------------------------------------------- averaging


def test_a_sum_under_model_averaging_moves_the_centre_as_stock_moves():
    build = programs.classifier(reduce=total)
    stock, _, _, _ = run(build, programs.plain, 1, train=slowly)
    options = learners(2, synchroniser=tensorbow.SMA())
    ours, _, _, said = run(build, programs.plain, 1, options, slowly)
    assert_same_weights(ours, stock)
    assert said == []


def test_a_sum_with_a_batch_size_is_stock_on_such_batches():
    """Each learner's gradient is that of a batch; their mean is half of the sum over all rows."""

    def halved(loss):
        return tf1.train.GradientDescentOptimizer(0.001).minimize(loss)

    build = programs.classifier(reduce=total)
    options = learners(2, synchroniser=tensorbow.SSGD(), batch_size=16)
    stock, _, _, _ = run(build, programs.plain, 1, train=halved)
    ours, _, explanation, said = run(build, programs.plain, 1, options, slowly)
    assert_same_weights(ours, stock)
    assert (explanation.learners, explanation.division, said) == (2, "by own rows", [])


# ----------------------------------------------------------------------------- fetches

FETCHES = {
    "each": "rows on axis 0",
    "count": "sum over rows",
    "float count": "sum over rows",
    "accuracy": "mean over rows",
    "constant": "same on all learners",
    "largest": "maximum over rows",
    "log": "same on all learners",
    "root": "same on all learners",
    "any": "any row agrees",
    "guarded": "same on all learners",
    "twice a row": "rows on axis 0",
}


@COUNTS
def test_fetches_are_what_one_learner_computes_from_all_rows(count):
    explanation = assert_stocks(
        programs.classifier(), programs.plain, count, 3, fetch=tuple(FETCHES)
    )
    # The first is the loss.
    assert list(explanation.fetches.values())[1:] == list(FETCHES.values())


@COUNTS
def test_a_fetch_that_cannot_be_put_together_is_computed_once(count):
    explanation = assert_stocks(
        programs.classifier(), programs.plain, count, 3, fetch=["halves apart"]
    )
    assert explanation.fetches["concat:0"] == "computed once, for all rows"


def test_a_fetch_that_cannot_be_put_together_before_the_update_is_one_learners():
    def train(loss):
        with tf.control_dependencies([tf1.get_default_graph().get_tensor_by_name("concat:0")]):
            return programs.train_op(loss)

    explanation = assert_stocks(
        programs.classifier(),
        programs.plain,
        2,
        3,
        fetch=["halves apart"],
        executed_by=1,
        train=train,
    )
    assert "fetch 'concat:0'" in explanation.why and "cannot be combined" in explanation.why


def test_a_users_choice_for_a_fetch_counts():
    with tf.Graph().as_default():
        name = programs.classifier()().fetches["count"].name
    options = learners(2, combine={name: "stack"})
    _, ours, explanation, _ = run(
        programs.classifier(), programs.plain, 2, options, fetch=["count"]
    )
    assert ours[-1][1].shape == (2,)
    assert explanation.fetches[name] == "stack"


# --------------------------------------------------------------------------- explain()


def test_updates_by_hand_and_clipped_gradients():
    def by_hand(loss):
        updates = []
        for variable in tf1.trainable_variables():
            (gradient,) = tf1.gradients(loss, variable)
            m = tf1.get_variable(variable.op.name + "_m", variable.shape, trainable=False)
            v = tf1.get_variable(
                variable.op.name + "_v",
                variable.shape,
                trainable=False,
                initializer=tf1.ones_initializer(),
            )
            next_m = 0.9 * m + 0.1 * gradient
            next_v = 0.99 * v + 0.01 * square(gradient)
            step = next_m / (tf.sqrt(next_v) + 1e-3)
            updates += [
                tf1.assign(variable, variable - 0.01 * step),
                tf1.assign(m, next_m),
                tf1.assign(v, next_v),
            ]
        return tf.group(*updates)

    def clipped(loss):
        optimiser = tf1.train.AdamOptimizer(0.01)
        gradients, variables = zip(*optimiser.compute_gradients(loss))
        gradients, _ = tf1.clip_by_global_norm(gradients, 0.1)
        return optimiser.apply_gradients(zip(gradients, variables))

    for train in (by_hand, clipped):
        explanation = assert_stocks(
            programs.classifier(), programs.plain, 2, 4, train=train, rtol=1e-3
        )
        assert explanation.division == "exact", train.__name__


def test_explanation_prints_what_there_is_to_know():
    _, _, explanation, _ = run(programs.masked, programs.masked_data, 1, learners(2), fetch=())
    text = str(explanation)
    assert "executed by 2 learners" in text and "SSGD" in text
    assert "16 + 16 rows" in text and "Division: exact" in text
    assert f"exchanged: {explanation.exchanges[0]}, sum over rows" in text
    assert "fetch truediv:0: sum over rows" in text


def test_reads_and_writes_are_explained_too():
    with tf.Graph().as_default():
        program = programs.classifier()()
        with tensorbow.TensorBowSession(options=learners(2)) as session:
            initialise = tf1.global_variables_initializer()
            assert session.explain(initialise).kind == "write"
            feeds = dict(zip(program.feeds, programs.plain(np.random.RandomState(0))))
            explanation = session.explain(program.loss, feeds)
            assert (explanation.kind, explanation.learners) == ("read", 1)
            with pytest.raises(ValueError, match="Cannot feed value of shape"):
                session.explain(program.loss, {program.feeds[0]: np.zeros((3, 3))})


def test_a_program_that_has_converged_stays_divided():
    """The rest of its gradients is rounding."""

    def build():
        x, y = tf1.placeholder(tf.float32, [None, 3]), tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.zeros(3, "f"))
        return programs.Program([x, y], mean(square(tf.linalg.matvec(x, w) - y)))

    law, rows = np.float32([1, -2, 3]), np.random.RandomState(0).randn(64, 3).astype("f")

    def train(loss):
        return tf1.train.GradientDescentOptimizer(0.3).minimize(loss)

    trained, _, explanation, said = run(
        build, lambda _: [rows, rows @ law], 250, learners(2), train
    )
    assert (explanation.learners, said) == (2, [])
    np.testing.assert_allclose(trained["w"], law, rtol=1e-5)


def test_numbers_of_rows_are_those_of_all_rows():
    """Numbers as fetches, as written values, and together with other integers."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 3])
        w = tf1.get_variable("w", initializer=np.ones(3, np.float32), use_resource=True)
        counts = [
            tf1.get_variable(f"count{k}", initializer=k, trainable=False, use_resource=True)
            for k in range(2)
        ]
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w)))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        rows = tf.shape(x)[0]
        shape = tf.shape(x)
        forms = [rows, shape, tf.cast(shape, tf.float32), tf.cast(shape, tf.int16), 2 * shape]
        step = tf.group(train, counts[0].assign_add(rows), counts[1].assign(counts[1] + 2 * rows))
        init = tf1.global_variables_initializer()
    random = np.random.default_rng(0)
    batches = [random.standard_normal((n, 3)).astype(np.float32) for n in (12, 7, 9)]
    found = []
    for options in (None, tensorbow.Options(learners_per_device=2)):
        with (
            tf1.Session(graph=graph)
            if options is None
            else tensorbow.TensorBowSession(graph=graph, options=options)
        ) as session:
            session.run(init)
            values = [session.run([forms, step], {x: b})[0] for b in batches]
            found.append([*values, *session.run(counts)])
            if options is not None:
                assert session.learning_tasks == 6
    for stock, ours in zip(*found):
        tf.nest.map_structure(np.testing.assert_array_equal, ours, stock)
