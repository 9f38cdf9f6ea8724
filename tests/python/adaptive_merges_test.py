"""The moments of merges under Adaptive SGD, and the learner that starts after each."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.python.adaptive_test import (
    ADAPTIVE,
    Model,
    Program,
    another_training_operation,
    data,
)

tf1 = tf.compat.v1


@pytest.mark.parametrize("runs", [[50] * 60, [20, 30] * 60, [10] * 300], ids=["1", "2", "5"])
def test_nobody_shrinks_by_always_having_the_last_turn(runs):
    """3 or 5 batches in a mega-batch: the learner with one update more changes."""
    program = Program(rate=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tensorbow.TensorBowWarning)  # of one batch in a run
        with program.session(ADAPTIVE) as session:
            session.run(program.init)
            for run, rows in enumerate(runs):
                session.run(program.train, program.feeds(*data(rows, seed=run)))
            records = session.adaptive
    updates = np.sum([record.updates for record in records], axis=0)
    assert len(records) == 60 and abs(updates[0] - updates[1]) <= 1
    assert {min(record.sizes) for record in records} <= {20, 18, 19}, "beta / 2 less at most"


def test_what_is_left_of_a_mega_batch_is_merged_when_asked():
    program = Program()
    model = Model(ADAPTIVE, 2)
    with program.session(ADAPTIVE) as session:
        session.merge()  # nothing has been trained yet
        session.run(program.init)
        x, y = data(70)
        session.run(program.train, program.feeds(x, y))
        session.merge()
        model.train(x, y)
        model.merge()
        for j in range(2):
            np.testing.assert_allclose(
                session.learner_value(program.w, j), model.z, rtol=1e-4, atol=1e-6
            )
        np.testing.assert_allclose(session.run(program.w), model.z, rtol=1e-4, atol=1e-6)
        assert [sum(record.rows) for record in session.adaptive] == [50, 20]
        session.merge()
        assert len(session.adaptive) == 2, "there was nothing left"
    with program.session(tensorbow.SMA()) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="with AdaptiveSGD"):
            session.merge()


def test_a_merge_is_read_of_variables_that_its_run_does_not_train():
    program = Program()
    b, other, init = another_training_operation(program)
    with program.session(ADAPTIVE) as session:
        session.run(init)
        for _ in range(3):
            session.run(other, program.feeds(*data(20)))
            before = session.run(b)
            session.run(program.train, program.feeds(*data(30)))
            merged = session.central(b, averaged=False)
            assert session.run(b) == merged != before
