"""The results of a learning run: one value made of the learners' values."""

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session

tf1 = tf.compat.v1


@pytest.fixture
def trained():
    p = linear()
    x, y = rows(7)
    return p, {p.x: x, p.y: y}


def run(p, feeds, fetches, learners=2, **options):
    with session(p.graph, learners, **options) as s:
        s.run(p.init)
        return s.run([p.train, *fetches], feeds)[1:]


def test_operations_give_none(trained):
    p, feeds = trained
    with session(p.graph) as s:
        s.run(p.init)
        assert s.run(p.train, feeds) is None
        assert s.run([p.train], feeds) == [None]


def test_scalar_mean_is_weighted_by_rows(trained):
    p, feeds = trained
    with tf1.Session(graph=p.graph) as stock:
        stock.run(p.init)
        expected = stock.run(p.loss, feeds)
    for learners in (2, 3, 7):
        (loss,) = run(p, feeds, [p.loss], learners)
        np.testing.assert_allclose(loss, expected, rtol=1e-6)
        assert loss.dtype == np.float32 and loss.shape == ()


def test_rows_are_concatenated_in_order(trained):
    p, feeds = trained
    with p.graph.as_default():
        integers = tf.cast(tf.round(p.prediction), tf.int32)
        texts = tf.strings.as_string(p.y)
        matrix = tf.stack([p.prediction, p.y], axis=1)
    fetches = [p.prediction, integers, texts, matrix]
    with tf1.Session(graph=p.graph) as stock:
        stock.run(p.init)
        expected = stock.run(fetches, feeds)
    for options in (dict(learners=2), dict(learners=3), dict(learners=2, batch_size=2)):
        for actual, wanted in zip(run(p, feeds, fetches, **options), expected):
            assert actual.dtype == wanted.dtype
            if options.get("batch_size"):  # later tasks saw later weights
                assert actual.shape == wanted.shape
            elif wanted.dtype.kind == "f":
                np.testing.assert_allclose(actual, wanted, rtol=1e-6)
            else:
                np.testing.assert_array_equal(actual, wanted)


def test_float_tensors_that_are_not_rows_are_averaged(trained):
    p, feeds = trained
    with p.graph.as_default():
        gradient = tf.gradients(p.loss, p.w)[0]
    with tf1.Session(graph=p.graph) as stock:
        stock.run(p.init)
        expected = stock.run(gradient, feeds)
    (actual,) = run(p, feeds, [gradient])
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "options, count, summarised",
    [
        ({"synchroniser": "auto"}, 7, 7),
        ({}, 7, 8),  # averaged models: learner 0's estimate from its own 4 rows
        ({"proof": "off"}, 4, 4),  # of learner 0
    ],
    ids=["exchanged", "estimated", "untyped"],
)
def test_counts_and_summaries_of_them(trained, options, count, summarised):
    p, feeds = trained
    with p.graph.as_default():
        size = tf.size(p.y)
        summary = tf1.summary.scalar("rows", tf.cast(size, tf.float32))
    size_value, text = run(p, feeds, [size, summary], learners=2, **options)
    assert size_value == count
    parsed = tf1.Summary.FromString(text)
    assert parsed.value[0].simple_value == summarised


def test_variables_are_the_central_model(trained):
    p, feeds = trained
    with p.graph.as_default(), tf.control_dependencies([p.train]):
        after = p.w.read_value()
    with session(p.graph) as s:
        s.run(p.init)
        for _ in range(3):
            _, value = s.run([p.train, p.w], feeds)
            np.testing.assert_array_equal(value, s.run(p.w))
        tasks = s.learning_tasks
        value = s.run(after, feeds)  # trains, because the read waits for it
        assert s.learning_tasks == tasks + 2
        np.testing.assert_array_equal(value, s.run(p.w))
        kept = value.copy()
        s.run(p.train, feeds)
        np.testing.assert_array_equal(value, kept)


def test_fetched_arrays_are_not_overwritten_by_later_training():
    for use_resource in (True, False):
        for learners in (1, 2):
            p = linear(use_resource)
            x, y = rows(8)
            with p.graph.as_default():
                doubled = tf.identity(p.w) + 0.0
            with session(p.graph, learners) as s:
                s.run(p.init)
                held = s.run([p.train, doubled, p.prediction], {p.x: x, p.y: y})[1:]
                held.append(s.run(p.w))
                copies = [value.copy() for value in held]
                for _ in range(5):
                    s.run(p.train, {p.x: x, p.y: y})
            for value, copy in zip(held, copies):
                np.testing.assert_array_equal(value, copy)


def test_structures_are_kept(trained):
    p, feeds = trained
    with session(p.graph) as s:
        s.run(p.init)
        for _ in range(2):
            result = s.run({"a": [p.loss, (p.train, p.step)], "b": "loss:0"}, feeds)
            assert set(result) == {"a", "b"}
            assert result["a"][0] == result["b"]
            assert result["a"][1][0] is None
        result = s.run((p.loss, p.train, p.loss), feeds)
        assert isinstance(result, tuple) and result[0] == result[2]
        fed, _ = s.run([p.y, p.train], feeds)
        np.testing.assert_array_equal(fed, feeds[p.y])


@pytest.mark.parametrize(
    "how, expected",
    [
        ("mean", lambda parts: np.average([p.mean() for p in parts], weights=[4, 3])),
        ("sum", lambda parts: sum(p.mean() for p in parts)),
        ("first", lambda parts: parts[0].mean()),
        ("stack", lambda parts: [p.mean() for p in parts]),
    ],
)
def test_combination_of_a_scalar(trained, how, expected):
    p, feeds = trained
    with p.graph.as_default():
        value = tf.reduce_mean(p.y)
    (actual,) = run(p, feeds, [value], combine={value: how})
    y = feeds[p.y]
    np.testing.assert_allclose(actual, expected([y[:4], y[4:]]), rtol=1e-6)


def test_combination_of_rows_and_counts(trained):
    p, feeds = trained
    with p.graph.as_default():
        count = tf.size(p.y)
        fixed = tf.reshape(tf.reduce_mean(p.y), [1])
    combine = {count: "sum", fixed: "concat"}
    total, both = run(p, feeds, [count, fixed], combine=combine)
    assert total == 7 and total.dtype == np.int32
    assert both.shape == (2,)


def test_combination_that_cannot_be_is_refused(trained):
    p, feeds = trained
    with p.graph.as_default():
        text = tf.strings.as_string(tf.reduce_sum(p.y))
    for how, match in (("mean", "floating-point"), ("sum", "numbers"), ("concat", "rows")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            run(p, feeds, [text], combine={text: how})


def test_single_task_gives_its_values_as_they_are(trained):
    p, feeds = trained
    one = {p.x: feeds[p.x][:1], p.y: feeds[p.y][:1]}
    loss, prediction, step = run(p, one, [p.loss, p.prediction, p.step], learners=3)
    with tf1.Session(graph=p.graph) as stock:
        stock.run(p.init)
        expected = stock.run([p.loss, p.prediction], one)
    np.testing.assert_allclose(loss, expected[0], rtol=1e-6)
    np.testing.assert_allclose(prediction, expected[1], rtol=1e-6)
    assert step == 1
