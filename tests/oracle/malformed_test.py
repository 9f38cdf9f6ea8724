"""Invalid values, names and options: a clear error, and a session that continues.

After every refusal the session must compute the same as without it.
"""

import dataclasses
import os
import warnings

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import tensorbow
from tests.oracle import programs
from tests.oracle.history import Case, Comparison
from tests.oracle.setups import Setup
from tests.oracle.training import Train

tf1 = tf.compat.v1

FUZZ = int(os.environ.get("TENSORBOW_FUZZ", 0))
settings = hypothesis.settings(
    max_examples=max(60, FUZZ // 10),
    derandomize=not FUZZ,
    database=None,
    deadline=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
REFUSALS = (ValueError, TypeError, RuntimeError, OverflowError, tf.errors.OpError)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """One session beside its reference, for all examples: none of them may harm it."""
    case = Case(programs.Program(inputs="sparse"), Setup(), (Train(), Train(), Train(1)))
    comparison = Comparison(case, tmp_path_factory.mktemp("malformed"))
    comparison.run()
    yield comparison
    comparison.close()


# ------------------------------------------------------------------------------- feeds

odd_arrays = st.sampled_from(
    [
        np.zeros(()),
        np.zeros((0,)),
        np.zeros((0, 3)),
        np.zeros((4, 0)),
        np.zeros((4, 4)),
        np.zeros((2, 2, 3)),
        np.full((4, 3), np.nan),
        np.full((4,), np.inf),
        np.array([[1, 2, 3]] * 4, object),
        np.array(["a", "b", "c", "d"]),
        np.array([b"\xff"] * 4),
        np.zeros((4, 3), complex),
        np.zeros((4, 3), bool),
        np.ones((4, 3), np.float16)[::2],
        np.ma.masked_array(np.ones((4, 3)), True),
    ]
)
odd_values = st.one_of(
    odd_arrays,
    st.sampled_from(
        [None, "text", b"", [], [[]], [[1], [2, 3]], {}, {"a": 1}, 10**30, -(10**30), 2**31]
        + [2**63, float("nan"), 1j, object(), np, lambda: 1, [None] * 4, range(4), True]
    ),
    st.lists(st.integers(-(2**70), 2**70), max_size=5),
    st.lists(st.floats(), max_size=5),
)


def fine_feeds(built, rows):
    x, ids, y = built.batch(0, rows)
    return {"x": x, "ids": ids, "y": y, "rate": np.float64(0.0)}


@settings
@hypothesis.given(
    fed=st.sampled_from(["x", "ids", "y", "rate"]), value=odd_values, rows=st.sampled_from([4, 1])
)
def test_an_odd_value_is_refused_or_fed_as_a_stock_session_does(comparison, fed, value, rows):
    """The learning rate is 0, so that what is accepted changes nothing but counters."""
    c, built = comparison, comparison.built
    named = fine_feeds(built, rows) | {fed: value}
    feeds = {getattr(built, name): fine for name, fine in named.items()}
    fetches = [built.evaluated, built.rows]
    hypothesis.note(f"feeds: {named!r}")
    outcomes = []
    c.reference.replicas[0].load(c.reference.centre())
    for run in (c.reference.replicas[0].run, c.session.run):
        try:
            outcomes.append(run(fetches, feeds))
        except Exception as error:  # whatever stock raises
            outcomes.append(error)
    stock, ours = outcomes
    if isinstance(stock, Exception):
        assert isinstance(ours, type(stock)), f"stock: {stock!r}, ours: {ours!r}"
        assert str(ours), "an error without words"
    else:
        for a, b in zip(stock, ours):
            np.testing.assert_allclose(b, a, rtol=1e-9)
    _train_with(c, feeds, stock)
    Train(rows=rows).apply(c)
    c.check()


def _train_with(c, feeds, stock):
    """Uses the same values in a learning run, of a loss that reads them all."""
    before = c.session.samples_seen, c.session.learning_tasks, c.session.iterations
    try:
        c.session.run(c.built.ops["train"].op, feeds)
    except REFUSALS as error:
        assert str(error), "an error without words"
        assert before == (c.session.samples_seen, c.session.learning_tasks, c.session.iterations)
    else:
        assert not isinstance(stock, Exception), f"{stock!r} in a stock session, trained by ours"
    _reset(c)


def _reset(c):
    """Starts both sides again from the initial values; the reference adopts counters."""
    for name in ("samples_seen", "learning_tasks", "iterations"):
        setattr(c.reference.known, name, getattr(c.session, name))
    c.reference.known.rates.clear()
    c.reference.known.rates[("train", "none")] = 0.02
    c.session.run(c.built.init)
    c.reference.write(c.built.init, list(c.built.variables))


# ----------------------------------------------------------------- variables and learners


def test_what_is_not_a_variable_of_the_graph_is_refused_with_what_was_got(comparison):
    c = comparison
    with tf.Graph().as_default():
        foreign = tf1.get_variable("first", [2])
    odd = [None, 3, c.built.ops["train"].op, "nobody", "", "x", "train", c.built.x, foreign, []]
    for ask in (c.session.central, lambda v: c.session.learner_value(v, 0)):
        for value in odd:
            with pytest.raises((TypeError, ValueError), match=r"^(central|learner_value): "):
                ask(value)
    for learner, error in ((-1, ValueError), (2, ValueError), (True, TypeError), ("0", TypeError)):
        with pytest.raises(error, match="^learner_value: learner must be"):
            c.session.learner_value("first", learner)
    Train().apply(c)
    c.check()


def test_tensors_of_another_graph_are_refused_as_by_stock(comparison):
    c = comparison
    other = programs.Built(programs.Program(inputs="sparse"))
    batch = c.built.batch(0, 4)
    for fetches, feeds in (
        (other.loss, c.built.feeds(batch)),
        (c.built.loss, other.feeds(batch)),
        (other.ops["train"].op, c.built.feeds(batch)),
        (c.built.ops["train"].op, other.feeds(batch)),
        (other.last, None),
    ):
        for run in (c.reference.replicas[0].run, c.session.run):
            with pytest.raises((TypeError, ValueError), match="not an element of this graph"):
                run(fetches, feeds)
    Train().apply(c)
    c.check()


def test_a_closed_session_says_so_whatever_is_asked(tmp_path):
    comparison = Comparison(Case(programs.Program(), Setup(), (Train(),)), tmp_path)
    comparison.run()
    session, built = comparison.session, comparison.built
    comparison.close()
    for ask in (
        lambda: session.run(built.loss),
        lambda: session.central("first"),
        lambda: session.learner_value("first", 0),
        lambda: session.learner_devices,
        lambda: session.restart(),
        lambda: session.save_state(tmp_path / "state"),
        lambda: session.load_state(tmp_path / "state"),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            ask()
    assert session.learning_tasks == 2


# -------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    "option",
    [dict(shard=["nobody"]), dict(replicate=["x:7"]), dict(combine={"lost:0": "sum"})]
    + [dict(run_kind={"trian": "learning"})],
    ids=lambda option: next(iter(option)),
)
def test_names_that_the_graph_lacks_are_told_once(option):
    """An error would be too much: the graph may grow."""
    built = programs.Built(programs.Program())
    options = tensorbow.Options(learners_per_device=2, **option)
    name = next(iter(next(iter(option.values()))))
    with tensorbow.TensorBowSession(graph=built.graph, options=options) as session:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            session.run(built.init)
            for rows in (4, 6, 8):
                session.run(built.ops["train"].op, built.feeds(built.batch(0, rows)))
                session.run(built.evaluated, built.feeds(built.batch(0, rows)))
    texts = [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]
    assert len(texts) == 1 and name in texts[0] and next(iter(option)) in texts[0]


odd_options = st.dictionaries(
    st.sampled_from([field.name for field in dataclasses.fields(tensorbow.Options)]),
    st.one_of(odd_values, st.integers(-3, 4), st.sampled_from(["auto", "round_robin", ["x"]])),
    min_size=1,
    max_size=3,
)
odd_arguments = st.dictionaries(
    st.sampled_from([field.name for field in dataclasses.fields(tensorbow.SMA)]),
    st.one_of(odd_values, st.floats(), st.integers(-3, 4), st.sampled_from(["auto", "lagging"])),
    min_size=1,
    max_size=3,
)


@settings
@hypothesis.given(odd_options)
def test_odd_options_are_taken_or_refused_with_what_was_got(arguments):
    hypothesis.assume(not _is_large(arguments.get("learners_per_device")))
    try:
        tensorbow.Options(**arguments)
    except (TypeError, ValueError) as error:
        assert any(name in str(error) for name in arguments), f"{error} names none of them"


@settings
@hypothesis.given(st.sampled_from([tensorbow.SMA, tensorbow.EASGD, tensorbow.SSGD]), odd_arguments)
def test_odd_synchronisers_are_taken_or_refused_with_what_was_got(kind, arguments):
    known = {field.name for field in dataclasses.fields(kind)}
    arguments = {name: value for name, value in arguments.items() if name in known}
    try:
        synchroniser = kind(**arguments)
    except (TypeError, ValueError) as error:
        assert any(name in str(error) for name in arguments), f"{error} names none of them"
        return
    # Accepted options must give a working session.
    try:
        options = tensorbow.Options(learners_per_device=2, synchroniser=synchroniser)
        tensorbow.TensorBowSession(graph=tf.Graph(), options=options).close()
    except ValueError as error:
        assert "alpha must be less than" in str(error)


def _is_large(value):
    return isinstance(value, int) and value > 4
