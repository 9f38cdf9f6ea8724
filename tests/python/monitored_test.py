"""Sessions made by TensorFlow's training helpers have learners, too."""

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows

import tensorbow

tf1 = tf.compat.v1
TWO = tensorbow.Options(learners_per_device=2, synchroniser=tensorbow.SMA())


def train(creator, p, steps, hooks=()):
    x, y = rows(8)
    with tf1.train.MonitoredSession(session_creator=creator, hooks=hooks) as session:
        raw = session.raw_session() if hasattr(session, "raw_session") else session._tf_sess()
        for _ in range(steps):
            if session.should_stop():
                break
            session.run(p.train, {p.x: x, p.y: y})
    return raw


def test_monitored_session_trains_on_both_learners_and_goes_on_from_its_checkpoint(tmp_path):
    p = linear()
    with p.graph.as_default():
        saver = tf1.train.Saver()
        for last in (3, 5):
            creator = tensorbow.SessionCreator(
                tf1.train.Scaffold(saver=saver), checkpoint_dir=str(tmp_path), options=TWO
            )
            hooks = [
                tf1.train.StopAtStepHook(last_step=last),
                tf1.train.CheckpointSaverHook(str(tmp_path), save_steps=100, saver=saver),
            ]
            raw = train(creator, p, 100, hooks)
            assert isinstance(raw, tensorbow.TensorBowSession)
            assert raw.learning_tasks == 2 * (3 if last == 3 else 2)
            p.graph._unsafe_unfinalize()
    reader = tf.train.load_checkpoint(tf1.train.latest_checkpoint(str(tmp_path)))
    assert reader.get_tensor("global_step") == 5


def test_session_creator_gives_what_a_plain_session_computes():
    p = linear()
    x, y = rows(8)
    with tensorbow.TensorBowSession(graph=p.graph, options=TWO) as session:
        session.run(p.init)
        for _ in range(4):
            session.run(p.train, {p.x: x, p.y: y})
        expected = session.run(p.w)
    with p.graph.as_default():
        creator = tensorbow.SessionCreator(options=TWO)
        with tf1.train.MonitoredSession(session_creator=creator) as session:
            for _ in range(4):
                session.run(p.train, {p.x: x, p.y: y})
            np.testing.assert_array_equal(session.run(p.w), expected)


def test_one_checkpoint_file_may_be_named(tmp_path):
    p = linear()
    with p.graph.as_default():
        saver = tf1.train.Saver()
        with tf1.Session() as stock:
            stock.run(p.init)
            stock.run(p.w.assign([7, 8]))
            path = saver.save(stock, str(tmp_path / "model"))
        creator = tensorbow.SessionCreator(
            tf1.train.Scaffold(saver=saver), checkpoint_filename_with_path=path, options=TWO
        )
        with tf1.train.MonitoredSession(session_creator=creator) as session:
            np.testing.assert_array_equal(session.run(p.w), [7, 8])


def test_what_a_session_manager_cannot_do_is_refused(tmp_path):
    p = linear()
    manager = tensorbow.SessionManager(graph=p.graph, options=TWO)
    with pytest.raises(ValueError, match="wanted one of them"):
        manager.prepare_session("", checkpoint_dir="a", checkpoint_filename_with_path="b")
    with pytest.raises(ValueError, match="wait_for_checkpoint"):
        manager.prepare_session("", checkpoint_dir=str(tmp_path), wait_for_checkpoint=True)


def test_monitored_training_session_takes_a_target():
    """Uses stock classes in Python and default options: one learner for every core."""
    p = linear()
    x, y = rows(8)
    with p.graph.as_default():
        with tf1.train.MonitoredTrainingSession(master="tensorbow") as session:
            before = session.run(p.loss, {p.x: x, p.y: y})
            for _ in range(60):
                session.run(p.train, {p.x: x, p.y: y})
            assert session.run(p.step) == 60
            assert session.run(p.loss, {p.x: x, p.y: y}) < 0.5 * before
