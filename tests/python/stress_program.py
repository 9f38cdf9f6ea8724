"""Every kind of run at once on one session, in a process for stress_test.py.

Threads repeat one kind of run each until some seconds have passed and each has made enough
runs. A deadlock prints the threads' stacks and ends the process with 1.
"""

import faulthandler
import os
import pathlib
import threading
import time

import numpy as np
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1

SYNCHRONISERS = {
    "sma": lambda: tensorbow.SMA(),
    "sma_lagging": lambda: tensorbow.SMA(centre="lagging"),
    "ssgd": lambda: tensorbow.SSGD(),
    "independent": lambda: tensorbow.Independent(),
    "adaptive": lambda: tensorbow.AdaptiveSGD(mega_batch=256, b_max=8),
}
LEAST_RUNS = 5  # of every thread
# More than the start and the minimum of runs take on a loaded machine.
PATIENCE_SECONDS = 120


class Program:
    """A model, a queue that feeds it, and the actions of threads on their session."""

    def __init__(self, synchroniser, learners, directory):
        self.directory = pathlib.Path(directory)
        random = np.random.default_rng(0)
        x = random.standard_normal((16, 8)).astype(np.float32)
        y = random.standard_normal(16).astype(np.float32)
        self.graph = tf.Graph()
        with self.graph.as_default():
            fed_x = tf1.placeholder(tf.float32, [None, 8])
            fed_y = tf1.placeholder(tf.float32, [None])
            self.feeds = {fed_x: x, fed_y: y}
            queue = tf1.FIFOQueue(64, [tf.float32, tf.float32], [[8], []])
            self.enqueue = queue.enqueue_many([fed_x, fed_y])
            self.close_queue = queue.close(cancel_pending_enqueues=True)
            self.w = tf1.get_variable("w", [8, 1], use_resource=True)
            self.v = tf1.get_variable("v", [1, 1], use_resource=False)
            optimiser = tf1.train.GradientDescentOptimizer(0.01)
            self.loss = self._loss(fed_x, fed_y)
            self.train = optimiser.minimize(self.loss)
            self.train_from_queue = optimiser.minimize(self._loss(*queue.dequeue_many(4)))
            self.scale = self.w.assign(self.w * 0.999)
            self.saver = tf1.train.Saver()
            init = tf1.global_variables_initializer()
        options = tensorbow.Options(learners_per_device=learners, synchroniser=synchroniser)
        self.session = tensorbow.TensorBowSession(graph=self.graph, options=options)
        self.session.run(init)

    def _loss(self, x, y):
        return tf.reduce_mean(tf.square(tf.matmul(tf.matmul(x, self.w), self.v)[:, 0] - y))

    def kinds_of_runs(self):
        session = self.session
        return {
            "train": lambda: session.run(self.train, self.feeds),
            "train too": lambda: session.run(self.train, self.feeds),
            "train from a queue": lambda: session.run(self.train_from_queue),
            "fill the queue": lambda: session.run(self.enqueue, self.feeds),
            "read": lambda: session.run(self.loss, self.feeds),
            "write": lambda: session.run(self.scale),
            "save_state": lambda: session.save_state(self.directory / "state"),
            "Variable.load": lambda: self.w.load(np.full((8, 1), 0.1, np.float32), session),
            "Saver.save": lambda: self.saver.save(
                session, str(self.directory / "model"), write_meta_graph=False
            ),
            "restart": self._restart,
        }

    def _restart(self):
        self.session.restart()  # of the next training run
        self.session.run(self.train, self.feeds)

    def replicas(self):
        """Returns every variable's values in the learners."""
        with self.graph.as_default():
            return [
                [self.session.learner_value(variable, j) for j in range(self.session.num_learners)]
                for variable in (self.w, self.v)
            ]


class Stress:
    """Threads that repeat a run each, until they are stopped."""

    def __init__(self, program):
        self._program = program
        self._ending = threading.Event()
        self._progress = threading.Condition()
        self.counts = dict.fromkeys(program.kinds_of_runs(), 0)
        self.errors = {}

    def run(self, seconds):
        threads = [
            threading.Thread(target=self._repeat, args=item, daemon=True, name=item[0])
            for item in self._program.kinds_of_runs().items()
        ]
        end = time.monotonic() + seconds
        for thread in threads:
            thread.start()
        with self._progress:
            while not self.errors and min(self.counts.values()) < LEAST_RUNS:
                self._progress.wait()
            while not self.errors and (left := end - time.monotonic()) > 0:
                self._progress.wait(left)
        self._ending.set()
        # Wakes the thread that waits for rows, and the one that waits for space.
        self._program.session.run(self._program.close_queue)
        for thread in threads:
            thread.join()

    def _repeat(self, kind, run):
        while not self._ending.is_set():
            try:
                with self._program.graph.as_default():
                    run()
            except Exception as error:
                # The errors of a closed queue.
                closed = isinstance(error, (tf.errors.OutOfRangeError, tf.errors.CancelledError))
                if not (closed and self._ending.is_set()):
                    with self._progress:
                        self.errors[kind] = f"{type(error).__name__}: {error}"
                        self._progress.notify()
                return
            with self._progress:
                self.counts[kind] += 1
                self._progress.notify()


def execute(synchroniser, learners, seconds, directory):
    """Returns the threads' counts, their errors, and whether replicas are finite and equal."""
    faulthandler.dump_traceback_later(seconds + PATIENCE_SECONDS, exit=True)
    # The same number on every machine: learners also wait for cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    tf1.disable_eager_execution()
    program = Program(SYNCHRONISERS[synchroniser](), learners, directory)
    stress = Stress(program)
    stress.run(seconds)
    if not stress.errors:
        program.session.run(program.train, program.feeds)  # replicas follow all writes
    replicas = program.replicas() if not stress.errors else []
    return {
        "counts": stress.counts,
        "errors": stress.errors,
        "finite": bool(np.all([np.isfinite(r).all() for rs in replicas for r in rs])),
        "equal": all(np.array_equal(r, rs[0]) for rs in replicas for r in rs),
    }
