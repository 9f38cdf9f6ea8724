"""A run is divided only if dividing it changes nothing that matters; else stock's numbers."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.python import divided_programs as programs

tf1 = tf.compat.v1


def run(build, data, steps, options=None, optimiser=None, seed=3, fetch=()):
    """Trains; returns the weights by name, the last fetches, the session's facts, warnings."""
    random = np.random.RandomState(seed)
    with tf.Graph().as_default(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program = build()
        train = programs.train_op(program.loss, optimiser() if optimiser else None)
        wanted = [program.loss] + [program.fetches[name] for name in fetch]
        if options is None:
            session = tf1.Session()
        else:
            session = tensorbow.TensorBowSession(options=options)
        with session:
            session.run(tf1.global_variables_initializer())
            values = None
            for _ in range(steps):
                feeds = dict(zip(program.feeds, data(random)))
                values = session.run([train, *wanted], feeds)[1:]
            variables = {v.op.name: v for v in tf1.trainable_variables()}
            trained = session.run(variables)
            explanation = None
            if options is not None:
                explanation = session.explain([train, *wanted], feeds)
    said = [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]
    return trained, values, explanation, said


def learners(count=2, **more):
    return tensorbow.Options(learners_per_device=count, **more)


def assert_same_weights(ours, stock, rtol=2e-4):
    assert ours.keys() == stock.keys()
    for name, value in stock.items():
        scale = np.abs(value).max()
        np.testing.assert_allclose(ours[name], value, rtol=rtol, atol=rtol * scale, err_msg=name)


SOUND = {
    "mean": (programs.classifier(), programs.plain),
    "regularised": (programs.classifier(reduce=programs.regularised), programs.plain),
    "sum": (programs.classifier(reduce=tf.reduce_sum), programs.plain),
}


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("name", SOUND)
def test_sound_programs_are_divided_and_averaged_gradients_are_stocks(name, count):
    build, data = SOUND[name]
    rate = 0.002 if name == "sum" else 0.1
    optimiser = lambda: tf1.train.GradientDescentOptimizer(rate)  # noqa: E731
    stock, losses, _, _ = run(build, data, 6, optimiser=optimiser)
    options = learners(count, synchroniser=tensorbow.SSGD())
    ours, our_losses, explanation, said = run(build, data, 6, options, optimiser)
    assert explanation.verdict == "sound"
    assert explanation.learners == count
    # 32 rows on three learners are shards of 11, 11 and 10.
    assert_same_weights(ours, stock)
    np.testing.assert_allclose(our_losses[0], losses[0], rtol=1e-4)
    assert bool(explanation.scaled) == (name == "sum")
    assert len(said) == (name == "sum")


def test_sum_loss_under_model_averaging_moves_the_centre_as_stock_moves():
    build, data = SOUND["sum"]
    optimiser = lambda: tf1.train.GradientDescentOptimizer(0.002)  # noqa: E731
    stock, _, _, _ = run(build, data, 1, optimiser=optimiser)
    ours, _, _, said = run(build, data, 1, learners(2, synchroniser=tensorbow.SMA()), optimiser)
    assert_same_weights(ours, stock)
    assert "sums over the rows" in said[0]


def test_sum_loss_with_a_batch_size_is_stock_on_such_batches():
    build, data = SOUND["sum"]
    options = learners(2, synchroniser=tensorbow.SSGD(), batch_size=16)
    optimiser = lambda: tf1.train.GradientDescentOptimizer(0.002)  # noqa: E731
    halved = lambda: tf1.train.GradientDescentOptimizer(0.001)  # noqa: E731
    stock, _, _, _ = run(build, data, 1, optimiser=halved)
    ours, _, explanation, said = run(build, data, 1, options, optimiser)
    assert_same_weights(ours, stock)
    assert explanation.scaled == [] and not said


DIVIDED = {
    "dropout": (programs.classifier(lambda h: tf1.nn.dropout(h, rate=0.5)), "sound"),
    "moments": (programs.classifier(programs.norm_by_moments), "by batch moments"),
    "fused norm": (programs.classifier(programs.fused_norm), "by batch moments"),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_dropout_and_batch_norm_are_divided_without_a_word(name):
    build, verdict = DIVIDED[name]
    _, _, explanation, said = run(build, programs.plain, 3, learners(2))
    assert (explanation.verdict, explanation.learners, said) == (verdict, 2, [])


@pytest.mark.parametrize("count", [2, 4])
def test_masked_means_are_divided_before_and_after_training(count):
    found = set()
    for seed in range(3):
        _, _, explanation, said = run(
            programs.masked, programs.masked_data, 102, learners(count), seed=seed
        )
        found.add(explanation.verdict)
        assert (explanation.learners, said) == (count, [])
    assert found <= {"nearly sound", "sound"}


REFUSED = {
    "stacked halves": (programs.stacked_halves, programs.stacked_data),
    "time in front": (programs.time_in_front, programs.sequences),
    "cumulative": (programs.cumulative, programs.cumulative_data),
    "coordinates": (programs.coordinates, programs.entries),
    "rows in the graph": (programs.rows_in_the_graph, programs.plain),
    "towers": (programs.towers, programs.plain),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_division_would_change_is_trained_as_stock_with_one_warning(name):
    build, data = REFUSED[name]
    stock, losses, _, _ = run(build, data, 8)
    ours, our_losses, explanation, said = run(build, data, 8, learners(2))
    assert_same_weights(ours, stock, rtol=1e-5)
    np.testing.assert_allclose(our_losses[0], losses[0], rtol=1e-5)
    assert explanation.learners == 1
    assert explanation.verdict == "not sound"
    assert len(said) == 1 and "executed by one learner only" in said[0]
    assert "shard=" in said[0] and "replicate=" in said[0]


def test_a_loss_over_the_batch_is_found_at_the_latest_when_weights_have_moved():
    _, _, explanation, said = run(programs.contrastive, programs.only_x, 102, learners(4), seed=1)
    assert explanation.verdict == "not sound"
    assert len(said) == 1


def test_naming_the_feeds_overrides():
    with tf.Graph().as_default():
        program = programs.stacked_halves()
        name = program.feeds[0].name
    options = learners(2, shard=[name])
    _, _, explanation, said = run(programs.stacked_halves, programs.stacked_data, 2, options)
    assert (explanation.learners, explanation.verdict, said) == (2, "", [])


def test_without_proofs_feeds_are_divided_by_their_shapes():
    _, _, explanation, said = run(
        programs.stacked_halves, programs.stacked_data, 2, learners(2, proof="off")
    )
    assert (explanation.learners, explanation.verdict, said) == (2, "unproven", [])
    assert "off" in explanation.why


# ----------------------------------------------------------------------- fetches

FETCHES = ("each", "count", "float count", "accuracy", "constant", "twice a row")


@pytest.mark.parametrize("count", [2, 3])
def test_fetches_are_what_one_learner_computes_from_all_rows(count):
    build, data = SOUND["mean"]
    _, stock, _, _ = run(build, data, 2, fetch=FETCHES)
    options = learners(count, synchroniser=tensorbow.SSGD())
    _, ours, explanation, said = run(build, data, 2, options, fetch=FETCHES)
    rules = list(explanation.fetches.values())
    # The operation is no fetch of a value.
    assert rules == ["mean", "concat", "sum", "sum", "mean", "first", "concat"]
    for name, a, b in zip(("loss", *FETCHES), ours, stock):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype, name
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=name)
    assert said == []


def test_a_fetch_that_cannot_be_put_together_is_learner_0s_with_one_warning():
    build, data = SOUND["mean"]
    _, ours, explanation, said = run(build, data, 3, learners(2), fetch=["halves apart"])
    assert list(explanation.fetches.values())[-1] == "first"
    assert ours[1].shape == (programs.ROWS,)  # of 16 rows, twice
    assert len(said) == 1 and "combine=" in said[0]


def test_a_maximum_over_rows_is_neither_a_mean_nor_a_sum():
    """Although rows that are given twice, by which a sum over rows is told, do not change it."""
    build, data = SOUND["sum"]
    optimiser = lambda: tf1.train.GradientDescentOptimizer(0.002)  # noqa: E731
    _, _, explanation, said = run(build, data, 2, learners(2), optimiser, fetch=["largest"])
    assert explanation.learners == 2
    assert list(explanation.fetches.values()) == ["sum", "first"]
    assert len(said) == 2 and "sums over the rows" in said[0] and "combine=" in said[1]


NO_MEANS = ("largest", "log", "root", "any")


def test_no_means_are_not_taken_for_means_where_moments_are_those_of_the_batch():
    """There, values of shards are compared with those of rows given twice, which have the same
    moments, and the same largest and root."""
    build = programs.classifier(programs.norm_by_moments)
    fetch = ("guarded", *NO_MEANS)
    _, _, explanation, said = run(build, programs.plain, 2, learners(2), fetch=fetch)
    assert explanation.verdict == "by batch moments" and explanation.learners == 2
    assert list(explanation.fetches.values()) == ["mean", "mean", *["first"] * len(NO_MEANS)]
    assert len(said) == len(NO_MEANS) and all("combine=" in message for message in said)


def test_what_is_alike_by_chance_is_looked_at_again():
    """Rows that are all alike first, by which a logarithm of a mean is a mean of logarithms."""
    build, data = SOUND["mean"]
    first = True

    def alike_at_first(random):
        nonlocal first
        x, y = data(random)
        if first:
            x[:], y[:], first = x[0], y[0], False
        return x, y

    fetch = NO_MEANS[:3]
    _, _, explanation, said = run(build, alike_at_first, 8, learners(2), fetch=fetch)
    assert explanation.learners == 2
    assert list(explanation.fetches.values()) == ["mean", "first", "first", "first"]
    assert len(said) == len(fetch)


def test_a_users_choice_for_a_fetch_counts():
    build, data = SOUND["mean"]
    with tf.Graph().as_default():
        name = build().fetches["count"].name
    options = learners(2, combine={name: "stack"})
    _, ours, _, _ = run(build, data, 2, options, fetch=["count"])
    assert ours[1].shape == (2,)


def test_a_count_that_begins_with_zero_is_still_a_sum_later():
    def build():
        x = tf1.placeholder(tf.float32, [None, 1])
        w = tf1.get_variable("w", initializer=np.zeros((1, 1), "f"))
        error = tf.matmul(x, w) - 1
        small = tf.reduce_sum(tf.cast(tf.abs(error) < 0.9, tf.float32))
        return programs.Program([x], tf.reduce_mean(tf.square(error)), {"small": small})

    def data(random):
        return [np.ones((8, 1), "f")]

    for steps in (1, 2, 5):
        _, stock, _, _ = run(build, data, steps, fetch=["small"])
        _, ours, _, _ = run(build, data, steps, learners(2), fetch=["small"])
        assert ours[1] == stock[1]


# ------------------------------------------------------------- the proof itself


def test_a_proof_leaves_no_trace():
    """Variables, slots, counters and random numbers are those of a session without proof."""

    def build():
        program = programs.classifier(lambda h: tf1.nn.dropout(h, rate=0.3))()
        step = tf1.train.get_or_create_global_step()
        return program, step

    values = []
    for proof in ("auto", "off"):
        random = np.random.RandomState(5)
        with tf.Graph().as_default():
            tf1.set_random_seed(11)
            program, step = build()
            train = tf1.train.MomentumOptimizer(0.05, 0.9).minimize(program.loss, step)
            options = learners(2, proof=proof)
            with tensorbow.TensorBowSession(options=options) as session:
                session.run(tf1.global_variables_initializer())
                for _ in range(103):
                    session.run(train, dict(zip(program.feeds, programs.plain(random))))
                assert session.iterations == 103
                values.append(session.run(tf1.global_variables()))
    for a, b in zip(*values):
        np.testing.assert_array_equal(a, b)


def test_updates_written_by_hand_and_clipped_gradients_are_proved():
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
            next_v = 0.99 * v + 0.01 * tf.square(gradient)
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

    for make in (by_hand, clipped):
        with tf.Graph().as_default():
            program = programs.classifier()()
            train = make(program.loss)
            with tensorbow.TensorBowSession(options=learners(2)) as session:
                session.run(tf1.global_variables_initializer())
                feeds = dict(zip(program.feeds, programs.plain(np.random.RandomState(0))))
                explanation = session.explain([train], feeds)
        assert (explanation.verdict, explanation.learners) == ("sound", 2), make.__name__


def test_explanation_prints_what_there_is_to_know():
    build, data = SOUND["mean"]
    _, _, explanation, _ = run(build, data, 2, learners(2), fetch=["count"])
    text = str(explanation)
    assert "executed by 2 learners" in text and "SSGD" in text
    assert "16 + 16 rows" in text and "Division: sound" in text
    assert "the sum of the learners' values" in text


def test_reads_and_writes_are_explained_too():
    with tf.Graph().as_default():
        program = programs.classifier()()
        with tensorbow.TensorBowSession(options=learners(2)) as session:
            initialise = tf1.global_variables_initializer()
            assert session.explain(initialise).kind == "write"
            session.run(initialise)
            feeds = dict(zip(program.feeds, programs.plain(np.random.RandomState(0))))
            explanation = session.explain(program.loss, feeds)
            assert (explanation.kind, explanation.learners) == ("read", 1)
            with pytest.raises(ValueError, match="Cannot feed value of shape"):
                session.explain(program.loss, {program.feeds[0]: np.zeros((3, 3))})


def test_explaining_before_variables_have_values_says_so():
    with tf.Graph().as_default():
        program = programs.classifier()()
        train = programs.train_op(program.loss)
        with tensorbow.TensorBowSession(options=learners(2)) as session:
            feeds = dict(zip(program.feeds, programs.plain(np.random.RandomState(0))))
            with pytest.raises(tf.errors.FailedPreconditionError, match="initialisers first"):
                session.explain(train, feeds)


def test_a_program_that_has_converged_stays_divided():
    """What is left of its gradients when the proof is repeated is rounding."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 3])
        y = tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.zeros(3, np.float32))
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - y))
        step = tf1.train.GradientDescentOptimizer(0.3).minimize(loss)
        init = tf1.global_variables_initializer()
    random = np.random.RandomState(0)
    rows = random.standard_normal((64, 3)).astype(np.float32)
    law = np.float32([1, -2, 3])
    options = tensorbow.Options(learners_per_device=2)
    session = tensorbow.TensorBowSession(graph=graph, options=options)
    with session, warnings.catch_warnings():
        warnings.simplefilter("error", tensorbow.TensorBowWarning)
        session.run(init)
        for _ in range(250):
            session.run(step, {x: rows, y: rows @ law})
        assert session.learning_tasks == 2 * 250
        np.testing.assert_allclose(session.run(w), law, rtol=1e-5)
