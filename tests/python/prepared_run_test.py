"""A repeated learning run goes straight to the learners (cc/bindings/prepared_run).

The first run of its kind takes TensorFlow's way in and out. Later ones, and values in any form, are
compared with it.
"""

import gc
import sys

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

LEARNERS = [1, 2]


def is_prepared(s, fetches):
    """Returns whether the next run of `fetches` goes straight to the learners."""
    elements = fetches if isinstance(fetches, list) else [fetches]
    found = [
        plan for plan in s._plans.values() if all(a is b for a, b in zip(elements, plan._held))
    ]
    assert len(found) == 1
    return found[0].prepared is not None


def weights_after(p, learners, feeds):
    """Returns w after a run on each of `feeds`, a list of (x, y)."""
    with session(p.graph, learners) as s:
        s.run(p.init)
        for x, y in feeds:
            s.run(p.train, {p.x: x, p.y: y})
        assert is_prepared(s, p.train)
        return s.run(p.w)


# ------------------------------------------------------------------------ which runs


@pytest.mark.parametrize("learners", LEARNERS)
def test_learning_runs_are_prepared_when_they_come_again(learners):
    p = linear()
    x, y = rows(8)
    with session(p.graph, learners) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y})
        assert is_prepared(s, p.train)
        assert not is_prepared(s, p.init)
        s.run(p.loss, {p.x: x, p.y: y})
        assert not is_prepared(s, p.loss)
        assert s.iterations == 1
        s.run(p.train, {p.x: x, p.y: y})
        assert s.iterations == 2
        # If asked for more than values, it goes TensorFlow's way.
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        s.run(p.train, {p.x: x, p.y: y}, options=options, run_metadata=metadata)
        assert metadata.step_stats.dev_stats
        assert s.iterations == 3


STRINGS = {
    "str": list("abcd"),
    "bytes": [b"a", b"b", b"c", b"d"],
    "unicode array": np.array(list("abcd")),
    "bytes array": np.array(list("abcd"), "S"),
    "objects": np.array(["a", b"b", np.str_("c"), np.bytes_(b"d")], object),
}


@pytest.mark.parametrize("form, learners", in_turn(STRINGS, LEARNERS))
def test_strings_are_fed_and_fetched_as_tensorflow_does(form, learners):
    p = linear()
    with p.graph.as_default():
        text = tf1.placeholder(tf.string, [None])
        upper = tf.strings.upper(text)
        joined = tf.strings.reduce_join(upper)
    x, y = rows(4)
    fetches = [upper, joined, p.train]
    with session(p.graph, learners, combine={joined: "first"}) as s:
        s.run(p.init)
        for _ in range(3):
            got, first, _ = s.run(fetches, {text: STRINGS[form], p.x: x, p.y: y})
            assert got.dtype == object and got.tolist() == [b"A", b"B", b"C", b"D"]
            assert first == b"ABCD"[: 4 // learners]
        assert is_prepared(s, fetches)
        with pytest.raises(tf.errors.InternalError, match="Unsupported object type int"):
            s.run(fetches, {text: np.array(["a", 1, "c", "d"], object), p.x: x, p.y: y})
        s.run(fetches, {text: np.array([["é", "", "x" * 100, "d"]])[0], p.x: x, p.y: y})
    assert s.iterations == 4


def test_graph_may_grow_between_runs():
    p = linear()
    x, y = rows(8)
    with session(p.graph) as s:
        s.run(p.init)
        for k in range(3):
            s.run(p.train, {p.x: x, p.y: y})
            with p.graph.as_default():
                more = tf.reduce_sum(p.w) + float(k)
            np.testing.assert_allclose(s.run(more), s.run(p.w).sum() + k, rtol=1e-6)


# ----------------------------------------------------------------------------- feeds


def unaligned(a):
    buffer = np.empty(a.nbytes + 128, np.uint8)
    start = -buffer.ctypes.data % 64 + 4
    copy = buffer[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    copy[...] = a
    assert copy.ctypes.data % 64 == 4
    return copy


def aligned(a):
    buffer = np.empty(a.nbytes + 128, np.uint8)
    start = -buffer.ctypes.data % 64
    copy = buffer[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    copy[...] = a
    return copy


def read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


FORMS = {
    "aligned": aligned,
    "unaligned": unaligned,
    "read-only": read_only,
    "other order": np.asfortranarray,
    "backwards": lambda a: a[::-1].copy()[::-1],
    "every second": lambda a: np.repeat(a, 2, axis=0)[::2],
    "float64": lambda a: a.astype(np.float64),
    "big-endian": lambda a: a.astype(">f4"),
    "list": lambda a: a.tolist(),
    "subclass": lambda a: a.view(type("Mine", (np.ndarray,), {})),
    "shared rows": lambda a: np.broadcast_to(a[:1], a.shape),
}


@pytest.mark.parametrize("form, learners", in_turn(FORMS, LEARNERS))
def test_arrays_of_every_form(form, learners):
    p = linear(columns=5)
    batches = [rows(7, seed=k, columns=5) for k in range(3)]
    if form == "shared rows":
        batches = [(np.repeat(x[:1], 7, 0), np.repeat(y[:1], 7)) for x, y in batches]
    formed = [(FORMS[form](x), FORMS[form](y)) for x, y in batches]
    expected = weights_after(p, learners, batches)
    np.testing.assert_array_equal(weights_after(p, learners, formed), expected)


@pytest.mark.parametrize(
    "dtype", [tf.float16, tf.bfloat16, tf.int8, tf.uint64, tf.bool, tf.complex64]
)
def test_values_of_every_type_go_in_and_out(dtype):
    p = linear()
    with p.graph.as_default():
        value = tf1.placeholder(dtype, [None, 3])
        doubled = tf.stack([value, value], axis=1)
    x, y = rows(5)
    given = (np.arange(15).reshape(5, 3) % 2).astype(dtype.as_numpy_dtype)
    fetches = [doubled, p.train]
    with session(p.graph) as s:
        s.run(p.init)
        for _ in range(3):
            got, _ = s.run(fetches, {value: given, p.x: x, p.y: y})
            assert got.dtype == given.dtype
            np.testing.assert_array_equal(got, np.stack([given, given], axis=1))
        assert is_prepared(s, fetches)


def test_learning_rates_are_read_from_unaligned_feeds():
    """The rate is computed from a feed, and its drop restarts the averaging."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])
        rates = tf1.placeholder(tf.float32, [3])
        w = tf1.get_variable("w", initializer=np.float32(0))
        rate = tf.reduce_max(rates)
        loss = tf.reduce_mean(tf.square(w - x))
        train = tf1.train.GradientDescentOptimizer(rate).minimize(loss)
        init = tf1.global_variables_initializer()
    values = unaligned(np.arange(6, dtype=np.float32))
    options = dict(replicate=[rates])
    with session(graph, 2, **options) as s:
        s.run(init)
        for k in range(4):
            fed = unaligned(np.full(3, 0.1 if k < 3 else 0.01, np.float32))
            s.run(train, {x: values, rates: fed})
            replicas = [s.learner_value(w, j) for j in range(2)]
            if k < 3:
                assert replicas[0] != replicas[1]
    # Both started the last iteration from the central model z: the distance is 2·rate·(4 − 1).
    np.testing.assert_allclose(replicas[1] - replicas[0], 2 * 0.01 * 3, rtol=1e-3)


@pytest.mark.parametrize("learners", LEARNERS)
def test_arrays_are_let_go_after_the_run(learners):
    p = linear()
    x, y = (unaligned(a) for a in rows(8))
    with session(p.graph, learners) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y})
        before = sys.getrefcount(x), sys.getrefcount(y)
        for form in (unaligned, aligned):
            x, y = form(x), form(y)
            for _ in range(3):
                s.run(p.train, {p.x: x, p.y: y})
            s.run(p.train, {p.x: x + 1, p.y: y})  # nothing of the last run is kept
            assert (sys.getrefcount(x), sys.getrefcount(y)) == before


# A resource variable shares the memory of an aligned array, as in TensorFlow.
@pytest.mark.parametrize(
    "use_resource, form",
    [(True, unaligned), (False, unaligned), (False, aligned)],
    ids=["resource", "reference", "reference, aligned"],
)
def test_variables_keep_their_values_when_a_fed_array_changes(use_resource, form):
    p = linear()
    with p.graph.as_default():
        kept = tf1.get_variable(
            "kept",
            [8, 2],
            trainable=False,
            use_resource=use_resource,
            initializer=tf1.zeros_initializer(),
        )
        whole = tf1.placeholder(tf.float32, [8, 2])
        keep = tf.group(p.train, tf1.assign(kept, whole))
        init = tf1.global_variables_initializer()
    x, y = rows(4)
    array = form(np.ones((8, 2), np.float32))
    with session(p.graph, replicate=[whole]) as s:
        s.run(init)
        for k in range(3):
            array[...] = k
            s.run(keep, {whole: array, p.x: x, p.y: y})
            array[...] = np.nan
            gc.collect(0)
            for j in range(2):
                assert (s.learner_value(kept, j) == k).all()
        assert is_prepared(s, keep)


# --------------------------------------------------------------------------- fetches


@pytest.mark.parametrize("learners", LEARNERS)
def test_fetches_have_the_form_they_had_the_first_time(learners):
    p = linear()
    with p.graph.as_default():
        fetches = [
            tf.reduce_mean(p.error),
            p.error,
            p.prediction[:, None],
            tf.shape(p.x),
            tf.zeros([0, 3]),
            p.w,
            p.step,
            tf.cast(p.error, tf.bfloat16),
            p.train,
        ]
    x, y = rows(8)
    with session(p.graph, learners) as s:
        s.run(p.init)
        first = s.run(fetches, {p.x: x, p.y: y})
        assert is_prepared(s, fetches)
        second = s.run(fetches, {p.x: x, p.y: y})
    assert first[-1] is second[-1] is None
    for a, b in zip(first[:-1], second[:-1]):
        assert type(a) is type(b)
        assert (a.dtype, a.shape, a.flags.writeable) == (b.dtype, b.shape, b.flags.writeable)


@pytest.mark.parametrize("learners", LEARNERS)
@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
def test_fetched_arrays_are_the_callers_own(use_resource, learners):
    p = linear(use_resource)
    x, y = rows(8)
    fetches = [p.w, p.error, p.train]
    with session(p.graph, learners) as s:
        s.run(p.init)
        values, copies = [], []
        for _ in range(6):
            values.append(s.run(fetches, {p.x: x, p.y: y})[:2])
            copies.append([v.copy() for v in values[-1]])
        for value, copy in zip(values, copies):
            for a, b in zip(value, copy):
                np.testing.assert_array_equal(a, b)
        before = s.run(p.w)
        for value in values[-1]:
            value[...] = np.nan
        np.testing.assert_array_equal(s.run(p.w), before)
    del s
    gc.collect()
    np.testing.assert_array_equal(values[0][1], copies[0][1])


# ---------------------------------------------------------------- errors and warnings


@pytest.mark.parametrize("learners", LEARNERS)
def test_errors_say_what_they_said_the_first_time(learners):
    p = linear()
    with p.graph.as_default():
        choice = tf1.placeholder(tf.int32, [None])
        labels = tf.one_hot(choice, 2)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=choice, logits=labels, name="losses"
        )
        train = [losses, p.train]
    x, y = rows(4)
    good, bad = np.zeros(4, np.int32), np.full(4, 7, np.int32)
    raised = []
    with session(p.graph, learners) as s:
        s.run(p.init)
        for options in (tf1.RunOptions(), None):
            s.run(train, {choice: good, p.x: x, p.y: y})
            assert is_prepared(s, train)
            with pytest.raises(tf.errors.InvalidArgumentError) as info:
                s.run(train, {choice: bad, p.x: x, p.y: y}, options=options)
            raised.append(info.value)
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            s.run(train, {choice: good, p.x: x[:, :1], p.y: y})
        s.run(train, {choice: good, p.x: x, p.y: y})
    assert raised[0].message == raised[1].message
    assert raised[0].op is raised[1].op is losses.op


def test_run_that_cannot_be_divided_is_executed_once_and_says_why():
    p = linear(columns=4)
    x, y = rows(8, columns=4)
    weights = []
    for options in (tf1.RunOptions(), None):
        with session(p.graph) as s:
            s.run(p.init)
            s.run(p.train, {p.x: x, p.y: y})
            assert is_prepared(s, p.train)
            with pytest.warns(tensorbow.TensorBowWarning, match="one learner only") as caught:
                s.run(p.train, {p.x: x[:1], p.y: y}, options=options)
            assert len(caught) == 1
            assert s.run(p.step) == 2
            weights.append(s.run(p.w))
    np.testing.assert_array_equal(*weights)
