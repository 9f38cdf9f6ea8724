"""Options: refused values, and the words of the errors."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session

import tensorbow

tf1 = tf.compat.v1


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        (dict(learners_per_device=0), ValueError, "from 1 to 1024, got 0"),
        (dict(learners_per_device=-1), ValueError, "from 1 to 1024"),
        (dict(learners_per_device=5000), ValueError, "from 1 to 1024"),
        (dict(learners_per_device=2.0), TypeError, "must be an int"),
        (dict(learners_per_device=True), TypeError, "must be an int"),
        (dict(learners_per_device="2"), TypeError, "must be an int"),
        (dict(batch_size=0), ValueError, "at least 1, got 0"),
        (dict(batch_size="16"), TypeError, "must be an int"),
        (dict(synchroniser="sma"), TypeError, "\"auto\", tensorbow.SMA.* got 'sma'"),
        (dict(synchroniser=None), TypeError, "tensorbow.SMA.* got None"),
        (dict(synchroniser=tensorbow.SMA), TypeError, "tensorbow.SMA"),
        (dict(scheduling="random"), ValueError, '"fcfs" or "round_robin"'),
        (dict(scheduling=None), ValueError, '"fcfs" or "round_robin"'),
        (dict(shard="x:0"), TypeError, "list of feeds"),
        (dict(shard=[3]), TypeError, "tensors or tensor names"),
        (dict(shard=["x"], replicate=["x:0"]), ValueError, "either divided or given whole"),
        (dict(combine={"loss": "median"}), ValueError, "mean, sum, concat"),
        (dict(combine=["loss"]), TypeError, "must be a dict"),
        (dict(run_kind={"train": "train"}), ValueError, "read, write, learning"),
        (dict(seed=1.5), TypeError, "must be an int"),
        (dict(pin_threads=1), TypeError, "must be a bool"),
        (dict(learners=2), TypeError, "learners"),
    ],
)
def test_wrong_options_are_refused_at_construction(arguments, error, match):
    with pytest.raises(error, match=match):
        tensorbow.Options(**arguments)


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        (dict(alpha=0), ValueError, "greater than 0, got 0"),
        (dict(alpha=-0.1), ValueError, "greater than 0"),
        (dict(alpha=float("nan")), ValueError, "greater than 0"),
        (dict(alpha="0.5"), TypeError, "number or None"),
        (dict(alpha=1.01), ValueError, "at most 1 .* got 1.01; leave it out for 1 / number"),
        (dict(centre="mean"), ValueError, '"current" or "lagging", got \'mean\''),
        (dict(centre=0.9), ValueError, '"current" or "lagging", got 0.9'),
        (dict(centre="lagging", momentum=1.0), ValueError, r"in \[0, 1\), got 1.0"),
        (dict(centre="lagging", momentum=-0.5), ValueError, r"in \[0, 1\)"),
        (dict(centre="lagging", momentum=True), TypeError, "must be a number"),
        (dict(momentum="none"), TypeError, '"auto" or None'),
        (dict(momentum=0.9), ValueError, "no predecessor .* got momentum=0.9 .* in the optimiser"),
        (dict(momentum=0.0), ValueError, r'use SMA\(centre="lagging", momentum=...\)'),
        (dict(momentum="auto"), ValueError, 'belongs to centre="lagging"'),
        (dict(sync_period=0), ValueError, "from 1 to 2147483647, got 0"),
        (dict(sync_period=10**30), ValueError, "from 1 to 2147483647, got 10"),
        (dict(sync_period=1.0), TypeError, "must be an int"),
        (dict(restart="always"), ValueError, '"lr_drop", "never" or a callable'),
        (dict(restart=True), TypeError, '"lr_drop", "never" or a callable'),
    ],
)
def test_wrong_synchronisers_are_refused_at_construction(arguments, error, match):
    with pytest.raises(error, match=match):
        tensorbow.SMA(**arguments)


def test_momentum_of_the_lagging_centre_is_a_number_or_left_to_the_optimiser():
    for momentum, native in ((None, None), ("auto", None), (0, 0.0), (0.5, 0.5)):
        sma = tensorbow.SMA(centre="lagging", momentum=momentum)
        assert sma.native_options()["momentum"] == native
    same = tensorbow.SMA(0.3, centre="lagging", momentum=0, sync_period=4)
    assert tensorbow.EASGD(0.3, sync_period=4).native_options() == same.native_options()


def test_alpha_of_the_lagging_centre_is_bounded_by_the_number_of_learners():
    for learners, alpha, fine in (
        (2, 0.66, True),
        (2, 0.67, False),
        (4, 0.39, True),
        (4, 0.4, False),
    ):
        options = tensorbow.Options(
            learners_per_device=learners, synchroniser=tensorbow.SMA(alpha, centre="lagging")
        )
        if fine:
            tensorbow.TensorBowSession(graph=tf.Graph(), options=options).close()
        else:
            with pytest.raises(ValueError, match=r"less than 2 / \(L \+ 1\)"):
                tensorbow.TensorBowSession(graph=tf.Graph(), options=options)
    one = tensorbow.Options(learners_per_device=1, synchroniser=tensorbow.SMA(1.5, "lagging"))
    tensorbow.TensorBowSession(graph=tf.Graph(), options=one).close()


def test_alpha_of_the_current_centre_goes_up_to_1_for_any_number_of_learners():
    options = tensorbow.Options(learners_per_device=4, synchroniser=tensorbow.SMA(alpha=1))
    tensorbow.TensorBowSession(graph=tf.Graph(), options=options).close()


def test_options_are_frozen():
    options = tensorbow.Options()
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.batch_size = 3


def test_names_may_be_given_as_tensors_or_strings():
    p = linear()
    options = tensorbow.Options(
        shard=[p.x, "y"], combine={p.loss: "sum", "error": "first"}, run_kind={p.train: "write"}
    )
    assert options.shard == ("x:0", "y:0")
    assert options.combine == {"loss:0": "sum", "error:0": "first"}
    assert options.run_kind == {"train": "write"}


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        (dict(target=3), TypeError, "must be a string"),
        (dict(target=tf1.ConfigProto()), TypeError, r"Session\(config=config\)"),
        (dict(graph="graph"), TypeError, "must be a tf.Graph"),
        (dict(config="config"), TypeError, "must be a tf.ConfigProto"),
        (dict(options={"batch_size": 3}), TypeError, "must be a tensorbow.Options"),
    ],
)
def test_wrong_session_arguments_are_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        tensorbow.TensorBowSession(**arguments)


def test_strong_momentum_on_both_sides_warns():
    p = linear(optimiser=lambda: tf1.train.MomentumOptimizer(0.01, 0.9))
    x, y = rows(8)
    with session(p.graph, synchroniser=tensorbow.SMA(centre="lagging", momentum=0.9)) as s:
        s.run(p.init)
        with pytest.warns(tensorbow.TensorBowWarning, match="2- to 8-fold"):
            s.run(p.train, {p.x: x, p.y: y})


def test_determinism_chooses_round_robin():
    from tensorflow.python.framework import config

    p = linear()
    x, y = rows(64)
    tf.config.experimental.enable_op_determinism()
    try:
        outcomes = []
        for _ in range(3):
            with session(p.graph, batch_size=2, scheduling="fcfs") as s:
                s.run(p.init)
                for _ in range(5):
                    s.run(p.train, {p.x: x, p.y: y})
                outcomes.append([s.learner_value(p.w, j) for j in range(2)])
    finally:
        config.disable_op_determinism()
    for outcome in outcomes[1:]:
        np.testing.assert_array_equal(outcome, outcomes[0])
