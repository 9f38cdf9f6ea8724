"""save_state and load_state: a session continues bit for bit, whatever happens meanwhile."""

import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import state_machine
import tensorflow as tf
from state_programs import network, session, step

import tensorbow
from tests import fuzz
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

GRADIENT_DESCENT = None
ADAM = tf1.train.AdamOptimizer


def momentum(rate):
    return tf1.train.MomentumOptimizer(rate, 0.9)


def contents(path):
    """Returns the contents of a saved state, by key, as bytes (and dtype and shape)."""
    path = pathlib.Path(path)
    prefix = tf1.train.latest_checkpoint(str(path.parent), latest_filename=path.name)
    reader = tf1.train.load_checkpoint(prefix)
    values = {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}
    return {
        key: (
            value.dtype,
            value.shape,
            value.tolist() if value.dtype == object else value.tobytes(),
        )
        for key, value in values.items()
    }


def everything(program, sess, path):
    """Returns the values of a session: replicas and the central model by hand, and its state."""
    sess.save_state(path)
    replicas = {
        (variable.name, j): sess.learner_value(variable, j).tobytes()
        for variable in program.variables
        for j in range(sess.num_learners)
    }
    central = [value.tobytes() for value in sess.run(program.variables)]
    return replicas, central, contents(path)


def train(program, sess, steps):
    begin = sess.learning_tasks
    return [step(program, sess, begin + i) for i in range(steps)]


SESSIONS = {
    "auto": dict(),
    "sma": dict(synchroniser=tensorbow.SMA()),
    "one_learner": dict(learners=1, seed=1),
    "independent": dict(learners=3, synchroniser=tensorbow.Independent()),
    "period_2": dict(synchroniser=tensorbow.SMA(sync_period=2)),
    "lagging": dict(synchroniser=tensorbow.SMA(0.3, "lagging", momentum=0.5)),
    "alpha": dict(synchroniser=tensorbow.SMA(alpha=0.3)),
    "average": dict(synchroniser=tensorbow.SMA(ema_decay=0.99)),
    "easgd": dict(learners=3, synchroniser=tensorbow.EASGD(sync_period=4)),
    "ssgd": dict(learners=3, synchroniser=tensorbow.SSGD()),
    "easgd_average": dict(synchroniser=tensorbow.EASGD(sync_period=2, ema_decay=0.99)),
    "ssgd_average": dict(learners=3, synchroniser=tensorbow.SSGD(ema_decay=0.99)),
    "round_robin": dict(learners=3, batch_size=2, scheduling="round_robin"),
    "period_3": dict(
        batch_size=5, scheduling="round_robin", synchroniser=tensorbow.SMA(sync_period=3)
    ),
}
OPTIMISERS = {"momentum": momentum, "adam": ADAM, "sgd": GRADIENT_DESCENT}


@pytest.mark.parametrize(
    "options, optimiser, use_resource",
    [*in_turn(SESSIONS, ["momentum", "adam"], [True, False]), ("auto", "sgd", False)],
)
def test_a_new_session_goes_on_bit_for_bit(tmp_path, optimiser, use_resource, options):
    options, optimiser = SESSIONS[options], OPTIMISERS[optimiser]
    program = network(optimiser, use_resource)
    with session(program, **options) as sess:
        sess.run(program.init)
        train(program, sess, 7)
        sess.save_state(tmp_path / "seven")
        losses = train(program, sess, 6)
        expected = everything(program, sess, tmp_path / "a")
    again = network(optimiser, use_resource)
    with session(again, **options) as sess:
        sess.load_state(tmp_path / "seven")  # nothing has been run in it
        assert train(again, sess, 6) == losses
        assert everything(again, sess, tmp_path / "b") == expected


def test_saving_changes_nothing(tmp_path):
    outcomes = []
    for saves in (False, True):
        program = network(momentum)
        with session(
            program, synchroniser=tensorbow.SMA(centre="lagging", momentum=0.9, sync_period=2)
        ) as sess:
            sess.run(program.init)
            for _ in range(8):
                train(program, sess, 1)
                if saves:
                    sess.save_state(tmp_path / "often")
            outcomes.append(everything(program, sess, tmp_path / "end"))
    assert outcomes[0] == outcomes[1]


def test_a_session_that_has_gone_on_goes_back(tmp_path):
    program = network(momentum)
    with session(program) as sess:
        sess.run(program.init)
        train(program, sess, 3)
        sess.save_state(tmp_path / "state")
        before = contents(tmp_path / "state")
        losses = train(program, sess, 5)
        sess.load_state(tmp_path / "state")
        assert (sess.iterations, sess.learning_tasks, sess.samples_seen) == (3, 6, 36)
        sess.save_state(tmp_path / "state")
        assert contents(tmp_path / "state") == before
        assert train(program, sess, 5) == losses


def test_before_any_learning_run(tmp_path):
    program = network()
    with session(program) as sess:
        sess.save_state(tmp_path / "nothing")
        sess.run(program.init)
        sess.save_state(tmp_path / "initial")
        initial = sess.run(program.variables)
        losses = train(program, sess, 3)
        # The random numbers of the runs since the save are restored, too.
        sess.load_state(tmp_path / "initial")
        assert train(program, sess, 3) == losses
    with session(network()) as sess:
        sess.load_state(tmp_path / "nothing")
        assert sess.iterations == 0
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
            sess.run(sess.graph.get_collection("variables")[0])
    again = network()
    with session(again) as sess:
        sess.load_state(tmp_path / "initial")
        for value, expected in zip(sess.run(again.variables), initial):
            np.testing.assert_array_equal(value, expected)
        assert train(again, sess, 3) == losses


def test_a_state_loaded_and_saved_without_a_run_is_the_same(tmp_path):
    program = network(momentum)
    with session(program, synchroniser=tensorbow.SMA(sync_period=2)) as sess:
        sess.run(program.init)
        train(program, sess, 3)
        sess.save_state(tmp_path / "first")
    again = network(momentum)
    with session(again, synchroniser=tensorbow.SMA(sync_period=2)) as sess:
        sess.load_state(tmp_path / "first")
        sess.save_state(tmp_path / "second")
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


@pytest.mark.parametrize("saved, loaded", [("fed", "constant"), ("constant", "fed")])
def test_a_state_of_another_learning_rate_schedule_is_loaded_and_says_nothing_of_drops(
    tmp_path, saved, loaded
):
    """One program feeds its rate, the other has none to watch: the variables are the same."""

    def build(kind):
        program = network(dropout=False)
        with program.graph.as_default():
            program.rate = tf1.placeholder_with_default(np.float32(0.05), [])
            rate = program.rate if kind == "fed" else 0.05
            program.train = tf1.train.GradientDescentOptimizer(rate).minimize(
                program.loss, global_step=program.step, name="train"
            )
        return program

    def run(program, sess, index):
        x = np.random.default_rng(index).standard_normal((8, 5)).astype(np.float32)
        sess.run(program.train, {program.x: x, program.y: x.sum(1), program.rate: 0.05})

    def trained(program, sess):
        with program.graph.as_default():
            return sess.run(tf1.trainable_variables())

    first, second = build(saved), build(loaded)
    with session(first) as sess:
        sess.run(first.init)
        for i in range(3):
            run(first, sess, i)
        sess.save_state(tmp_path / "state")
        for i in range(3, 6):
            run(first, sess, i)
        expected = trained(first, sess)
    with session(second) as sess:
        sess.load_state(tmp_path / "state")
        for i in range(3, 6):
            run(second, sess, i)
        for ours, theirs in zip(trained(second, sess), expected):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_learning_rate_drop_right_after_loading_restarts(tmp_path):
    def build():
        program = network(dropout=False)
        with program.graph.as_default():
            program.rate = tf1.placeholder_with_default(np.float32(0.05), [])
            program.train = tf1.train.GradientDescentOptimizer(program.rate).minimize(
                program.loss, global_step=program.step
            )
        return program

    def run(program, sess, index, rate):
        x = np.random.default_rng(index).standard_normal((8, 5)).astype(np.float32)
        feeds = {program.x: x, program.y: x.sum(1), program.rate: rate}
        sess.run(program.train, feeds)

    program = build()
    with session(program) as sess:
        sess.run(program.init)
        run(program, sess, 0, 0.05)
        run(program, sess, 1, 0.05)
        sess.save_state(tmp_path / "state")
        run(program, sess, 2, 0.01)
        expected = everything(program, sess, tmp_path / "a")
        sess.load_state(tmp_path / "state")
        run(program, sess, 2, 0.03)  # no drop, but another change
        assert everything(program, sess, tmp_path / "c") != expected
    again = build()
    with session(again) as sess:
        sess.load_state(tmp_path / "state")
        run(again, sess, 2, 0.01)
        assert everything(again, sess, tmp_path / "b") == expected


def test_a_requested_restart_is_not_forgotten(tmp_path):
    program = network()
    with session(program) as sess:
        sess.run(program.init)
        train(program, sess, 3)
        sess.restart()
        sess.save_state(tmp_path / "state")
        losses = train(program, sess, 3)
    again = network()
    with session(again) as sess:
        sess.load_state(tmp_path / "state")
        assert train(again, sess, 3) == losses


def test_unseeded_random_ops_and_generators_go_on(tmp_path):
    def build():
        graph = tf.Graph()
        with graph.as_default():
            x = tf1.placeholder(tf.float32, [None, 2], name="x")
            w = tf1.get_variable("w", [2], use_resource=True)
            generator = tf.random.Generator.from_seed(5)
            noise = [
                tf1.random.uniform(tf.shape(x)),
                tf1.random.normal(tf.shape(x)),
                tf1.random.truncated_normal(tf.shape(x)),
                tf.cast(tf1.random.uniform(tf.shape(x), 0, 1000, tf.int64), tf.float32),
                generator.normal(tf.shape(x)),
            ]
            loss = tf.reduce_mean(tf.linalg.matvec(x, w))
            train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return graph, [train_op, *noise], tf1.global_variables_initializer

    def draw(graph, fetches, sess):
        feed = {graph.get_tensor_by_name("x:0"): np.ones((6, 2), np.float32)}
        return np.stack([sess.run(fetches, feed)[1:] for _ in range(3)])

    graph, fetches, init = build()
    with tensorbow.TensorBowSession(graph=graph) as sess:
        with graph.as_default():
            sess.run(init())
        first = draw(graph, fetches, sess)
        sess.save_state(tmp_path / "state")
        second = draw(graph, fetches, sess)
    assert (first != second).any(axis=(0, 2, 3)).all()
    graph, fetches, _ = build()
    with tensorbow.TensorBowSession(graph=graph) as sess:
        with graph.as_default():
            init()
        sess.load_state(tmp_path / "state")
        np.testing.assert_array_equal(draw(graph, fetches, sess), second)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16])
def test_seeded_random_ops_draw_what_a_stock_session_draws(dtype, one_thread):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 3])
        w = tf1.get_variable("w", [3])
        shape = tf.concat([tf.shape(x) - [1, 0], [1000]], 0)  # of no elements for one row
        noise = [
            tf1.random.uniform(shape, dtype=dtype, seed=1),
            tf1.random.normal(shape, dtype=dtype, seed=2),
            tf1.random.truncated_normal(shape, dtype=dtype, seed=3),
            tf1.random.uniform(shape, -5, 1000, tf.int32, seed=4),
            tf1.random.uniform(shape, -(2**40), 2**50, tf.int64, seed=5),
        ]
        loss = tf.reduce_mean(tf.linalg.matvec(x, w))
        fetches = [tf1.train.GradientDescentOptimizer(0.1).minimize(loss), *noise]
        init = tf1.global_variables_initializer()
    outcomes = []
    options = tensorbow.Options(learners_per_device=1, seed=1)  # a seed: streams of its own
    for sess in (
        tf1.Session(graph=graph, config=one_thread),
        tensorbow.TensorBowSession(graph=graph, options=options),
    ):
        with sess:
            sess.run(init)
            outcomes.append(
                [sess.run(fetches, {x: np.ones((n, 3), np.float32)})[1:] for n in (2, 1, 7, 3)]
            )
    for stock, ours in zip(*outcomes):
        for expected, value in zip(stock, ours):
            np.testing.assert_array_equal(value, expected)


def test_random_state_that_is_not_saved_is_named(tmp_path):
    program = network(dropout=False)
    with program.graph.as_default():
        shuffle = tf1.random.shuffle(tf.range(5), seed=1, name="my_shuffle")
    with session(program) as sess:
        sess.run(program.init)
        x = np.zeros((4, 5), np.float32)
        sess.run([program.train, shuffle], {program.x: x, program.y: x[:, 0]})
        with pytest.warns(tensorbow.TensorBowWarning, match="my_shuffle"):
            sess.save_state(tmp_path / "state")


def test_one_learner_without_a_seed_shares_random_state_with_reads_and_says_so(tmp_path):
    program = network()
    with session(program, learners=1) as sess:
        sess.run(program.init)
        train(program, sess, 1)
        with pytest.warns(tensorbow.TensorBowWarning, match="lacks the random state.*seed="):
            sess.save_state(tmp_path / "state")


# ------------------------------------------------------------------------- errors


def saved(tmp_path, **options):
    program = network()
    with session(program, **options) as sess:
        sess.run(program.init)
        train(program, sess, 2)
        sess.save_state(tmp_path / "state")
    return tmp_path / "state"


@pytest.mark.parametrize(
    "options, said",
    [
        (dict(synchroniser=tensorbow.Independent()), "synchroniser=SMA.*synchroniser=Independent"),
        (dict(synchroniser=tensorbow.SSGD()), "synchroniser=SMA.*synchroniser=SSGD"),
        (dict(synchroniser=tensorbow.SMA(ema_decay=0.5)), "ema_decay=None.*ema_decay=0.5"),
        (dict(synchroniser=tensorbow.SMA(alpha=0.25)), "alpha=0.5.*alpha=0.25"),
        (dict(synchroniser=tensorbow.SMA(centre="lagging")), "centre=current.*centre=lagging"),
        (dict(synchroniser=tensorbow.SMA(sync_period=4)), "sync_period=1.*sync_period=4"),
    ],
)
def test_other_options_are_refused(tmp_path, options, said):
    path = saved(tmp_path, synchroniser=tensorbow.SMA())
    program = network()
    with session(program, **options) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match=said):
            sess.load_state(path)


def test_another_momentum_is_refused(tmp_path):
    path = saved(tmp_path, synchroniser=tensorbow.SMA(centre="lagging"))
    program = network()
    with session(program, synchroniser=tensorbow.SMA(centre="lagging", momentum=0.5)) as sess:
        with pytest.raises(
            tf.errors.FailedPreconditionError, match=r"momentum=auto.*momentum=0\.5"
        ):
            sess.load_state(path)


def test_other_graphs_are_refused_and_nothing_is_lost(tmp_path):
    path = saved(tmp_path)
    for build, said in [
        (lambda: network(momentum), "it lacks 3 that this graph has.*net/b/Momentum"),
        (lambda: with_variable([2], tf.float32), "it lacks 1 that this graph has.*'more'"),
    ]:
        program = build()
        with session(program) as sess:
            sess.run(program.init)
            train(program, sess, 2)
            before = everything(program, sess, tmp_path / "before")
            with pytest.raises(tf.errors.FailedPreconditionError, match=said):
                sess.load_state(path)
            assert everything(program, sess, tmp_path / "after") == before


def with_variable(shape, dtype):
    program = network()
    with program.graph.as_default():
        tf1.get_variable("more", shape, dtype, initializer=tf1.zeros_initializer())
        program.init = tf1.global_variables_initializer()
    return program


@pytest.mark.parametrize("shape, dtype", [([3], tf.float32), ([2], tf.float64)])
def test_other_shapes_and_types_are_refused(tmp_path, shape, dtype):
    program = with_variable([2], tf.float32)
    with session(program) as sess:
        sess.run(program.init)
        sess.save_state(tmp_path / "state")
    with session(with_variable(shape, dtype)) as sess:
        with pytest.raises(
            tf.errors.FailedPreconditionError, match=r"'more' with type float and shape \[2\]"
        ):
            sess.load_state(tmp_path / "state")
    with session(network()) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match="1 variables.*'more'"):
            sess.load_state(tmp_path / "state")


def test_wrong_paths(tmp_path):
    program = network()
    (tmp_path / "mine").write_text("something of the user's\n")
    with session(program) as sess:
        for path in (None, 3, "", b"bytes"):
            with pytest.raises(TypeError, match="path must be a str or os.PathLike, got"):
                sess.save_state(path)
        with pytest.raises(tf.errors.NotFoundError, match="save_state has been called with"):
            sess.load_state(tmp_path / "nowhere")
        for path in (tmp_path, tmp_path / "mine"):
            for action in (sess.save_state, sess.load_state):
                with pytest.raises(tf.errors.FailedPreconditionError, match="not a state saved"):
                    action(path)
        with pytest.raises(tf.errors.UnimplementedError, match="local file"):
            sess.save_state("gs://bucket/state")
        sess.save_state(tmp_path / "made" / "on the" / "way")
        sess.load_state(tmp_path / "made" / "on the" / "way")
    assert (tmp_path / "mine").read_text() == "something of the user's\n"
    with pytest.raises(RuntimeError, match="closed"):
        sess.save_state(tmp_path / "state")


# ------------------------------------------------------------------------- files


def test_the_files_are_a_checkpoint_and_old_ones_go(tmp_path):
    program = network(momentum)
    with session(program) as sess:
        sess.run(program.init)
        for _ in range(3):
            train(program, sess, 1)
            sess.save_state(tmp_path / "state")
            assert len(list(tmp_path.iterdir())) == 3
        values = sess.run(program.variables)
    prefix = tf1.train.latest_checkpoint(str(tmp_path), latest_filename="state")
    with tf1.Session(graph=program.graph) as stock:
        program.saver.restore(stock, prefix)
        for value, expected in zip(stock.run(program.variables), values):
            np.testing.assert_array_equal(value, expected)


def test_a_stock_checkpoint_is_trained_on_and_saved_back(tmp_path):
    program = network(momentum)
    with tf1.Session(graph=program.graph) as stock:
        stock.run(program.init)
        for i in range(3):
            step(program, stock, i)
        start = stock.run(program.variables)
        path = program.saver.save(stock, str(tmp_path / "stock"))
    with session(program) as sess:
        program.saver.restore(sess, path)
        for value, expected in zip(sess.run(program.variables), start):
            np.testing.assert_array_equal(value, expected)
        train(program, sess, 3)
        path = program.saver.save(sess, str(tmp_path / "ours"))
        values = sess.run(program.variables)
    with tf1.Session(graph=program.graph) as stock:
        program.saver.restore(stock, path)
        for value, expected in zip(stock.run(program.variables), values):
            np.testing.assert_array_equal(value, expected)


def test_saver_files_beside_a_state_stay(tmp_path):
    program = network()
    with session(program) as sess:
        sess.run(program.init)
        checkpoints = [program.saver.save(sess, str(tmp_path / "state"), n) for n in (1, 2, 3)]
        for _ in range(3):
            sess.save_state(tmp_path / "state")
        assert all(tf1.train.checkpoint_exists(name) for name in checkpoints)
        sess.load_state(tmp_path / "state")


def test_files_may_be_moved_together(tmp_path):
    path = saved(tmp_path)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for file in list(tmp_path.glob("state*")):
        file.rename(moved / file.name)
    with session(network()) as sess:
        sess.load_state(moved / path.name)
        assert sess.iterations == 2


def test_a_save_that_fails_leaves_the_old_state(tmp_path):
    program = network(momentum)
    with session(program) as sess:
        sess.run(program.init)
        train(program, sess, 2)
        sess.save_state(tmp_path / "state")
        files = sorted(tmp_path.iterdir())
        before = contents(tmp_path / "state")
        train(program, sess, 2)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        sizes = sorted(file.stat().st_size for file in files)  # pointer, tensors and index
        for size in (0, sizes[0] - 1, sizes[1] - 1, sizes[2] - 1):  # the "disk" is full
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            try:
                with pytest.raises(tf.errors.OpError):
                    sess.save_state(tmp_path / "state")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            assert sorted(tmp_path.iterdir()) == files
            assert contents(tmp_path / "state") == before
        sess.save_state(tmp_path / "state")
        assert contents(tmp_path / "state") != before


@pytest.mark.parametrize("pattern", ["*.data-*", "*.index"])
def test_damaged_files_are_noticed_and_nothing_is_lost(tmp_path, pattern):
    path = saved(tmp_path)
    (file,) = tmp_path.glob(pattern)
    whole = file.read_bytes()
    program = network()
    with session(program) as sess:
        sess.run(program.init)
        train(program, sess, 1)
        before = everything(program, sess, tmp_path / "before")
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        for damaged in (whole[:middle], b"", flipped):
            file.write_bytes(damaged)
            with pytest.raises(tf.errors.DataLossError, match="saved state"):
                sess.load_state(path)
            assert everything(program, sess, tmp_path / "after") == before
        file.write_bytes(whole)
        sess.load_state(path)
        file.unlink()
        with pytest.raises(tf.errors.DataLossError, match="saved state"):
            sess.load_state(path)


# ------------------------------------------------------------------------- killed


class Machine:
    """A process of state_machine.py; see there."""

    def __init__(self, directory):
        self.progress = directory / "progress"
        self.progress.write_bytes(b"\0")
        self._process = subprocess.Popen(
            [sys.executable, state_machine.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout.readline() == "ready\n"

    def train(self, state, last, save_every, kill_after_s=None, kill_saving=False):
        """Trains in a process of its own; returns its activity at the end, if killed.

        `kill_saving`: the kill then waits for the next moment in which it saves.
        """
        self.progress.write_bytes(bytes([state_machine.STARTING]))
        self._process.stdin.write(f"train {state} {self.progress} {last} {save_every}\n")
        self._process.stdin.flush()
        child = int(self._process.stdout.readline())
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            end = time.monotonic() + 60
            while kill_saving and self._activity() != state_machine.SAVING:
                assert time.monotonic() < end
            os.kill(child, signal.SIGKILL)
        status = int(self._process.stdout.readline())
        if kill_after_s is None:
            assert status == 0
            return None
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return self._activity()

    def _activity(self):
        return self.progress.read_bytes()[0]

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def test_killed_at_any_moment_a_process_resumes_bit_for_bit(tmp_path):
    kills = 60 if fuzz.FUZZ else 24
    random.seed(20)
    machine = Machine(tmp_path)
    state = tmp_path / "killed" / "state"
    lives_s = []
    for first in (state, tmp_path / "second" / "state", tmp_path / "third" / "state"):
        began = time.monotonic()
        machine.train(first, last=1, save_every=1)
        lives_s.append(time.monotonic() - began)  # some are held up by other tests
    one_life_s = min(lives_s)
    at = []
    never = 10**9
    for kill in range(kills):
        after_s = random.uniform(0.3, 2) * one_life_s
        # On a busy machine a random moment is rarely one of these.
        at.append(machine.train(state, never, 2, after_s, kill_saving=kill % 4 == 0))
    # Kills occur during all activities of a process, not only at its start.
    assert at.count(state_machine.SAVING) >= kills // 12
    assert at.count(state_machine.TRAINING) + at.count(state_machine.SAVING) >= kills // 3

    iterations = int(np.frombuffer(contents(state)["_tensorbow/counters"][2], np.int64)[0])
    assert iterations > kills
    machine.train(state, iterations + 10, 2)
    uninterrupted = tmp_path / "uninterrupted" / "state"
    machine.train(uninterrupted, iterations + 10, never)
    machine.close()
    assert contents(state) == contents(uninterrupted)
    assert "_tensorbow/learner/1/variable/net/w/Momentum" in contents(state)
    assert len(list(state.parent.iterdir())) == 3
