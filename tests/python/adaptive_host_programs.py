"""The programs of hosts in tests of Adaptive SGD, see hosts.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1

COLUMNS = 3
RATE, MOMENTUM = 0.0625, 0.5  # exact in float32


def rows_of(rank: int, run: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows that a host is fed in a run."""
    random = np.random.default_rng([rank, run])
    x = random.standard_normal((rows, COLUMNS))
    return x, np.tanh(x.sum(1)) + 0.1 * random.standard_normal(rows)


class Program:
    """Least squares in float64 under gradient descent with momentum; initial weights differ by
    host."""

    def __init__(self, rank: int, elements: list[int] | None = None, sparse: bool = False) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            if elements is not None:
                x, y = rows_of(rank, 0, sum(elements))
                ends = np.cumsum([0, *elements])
                data = tf.data.Dataset.from_tensor_slices((ends[:-1], ends[1:])).map(
                    lambda begin, end: (tf.constant(x)[begin:end], tf.constant(y)[begin:end])
                )
                self.iterator = tf1.data.make_initializable_iterator(data)
                self.x, self.y = self.iterator.get_next()
                self.y.set_shape([None])
            elif sparse:
                self.x = tf1.sparse_placeholder(tf.float64, [None, COLUMNS])
                self.y = tf1.placeholder(tf.float64, [None])
            else:
                self.x = tf1.placeholder(tf.float64, [None, COLUMNS])
                self.y = tf1.placeholder(tf.float64, [None])
            self.bad = tf1.placeholder_with_default(np.float64(0), [])
            self.w = tf1.get_variable(
                "w", initializer=np.random.default_rng(rank).standard_normal(COLUMNS)
            )
            if sparse:
                predicted = tf.sparse.sparse_dense_matmul(self.x, self.w[:, None])[:, 0]
            else:
                predicted = tf.linalg.matvec(self.x, self.w)
            with tf.control_dependencies(
                [tf.debugging.check_numerics(self.bad, "bad is not a number")]
            ):
                predicted = tf.identity(predicted)
            loss = tf.reduce_mean(tf.square(predicted - self.y))
            self.train = tf1.train.MomentumOptimizer(RATE, MOMENTUM).minimize(loss)
            self.bias = tf1.get_variable("bias", initializer=np.float64(rank))
            of_bias = tf.reduce_mean(tf.square(self.y - self.bias))
            self.train_bias = tf1.train.GradientDescentOptimizer(RATE).minimize(
                of_bias, var_list=[self.bias]
            )
            self.init = tf1.global_variables_initializer()

    def session(
        self,
        addresses: list[str],
        rank: int,
        learners: int,
        adaptive: dict[str, Any],
        scheduling: Any = "round_robin",
    ) -> Any:
        options = tensorbow.Options(
            learners_per_device=learners,
            synchroniser=tensorbow.AdaptiveSGD(**adaptive),
            cluster=tensorbow.Cluster(addresses, rank, start_limit_seconds=60),
            scheduling=scheduling,
            pin_threads=False,
        )
        return tensorbow.TensorBowSession(graph=self.graph, options=options)

    def feeds(self, rank: int, run: int, rows: int) -> dict[Any, Any]:
        x, y = rows_of(rank, run, rows)
        if isinstance(self.x, tf.SparseTensor):
            where = np.argwhere(x)
            return {self.x: tf1.SparseTensorValue(where, x[x != 0], x.shape), self.y: y}
        return {self.x: x, self.y: y}


def _told(error: tf.errors.OpError) -> str:
    return f"{type(error).__name__}: {error.message}"


def _records(session: Any) -> list[Any]:
    return [[list(values) for values in vars(record).values()] for record in session.adaptive]


def _counts(session: Any) -> tuple[int, int]:
    return session.learning_tasks, session.samples_seen


def merges(
    rank: int,
    addresses: list[str],
    learners: list[int],
    runs: list[list[int]],
    adaptive: dict[str, Any],
    path: str,
    sparse: bool = False,
) -> dict[str, Any]:
    """Trains in runs of so many rows, by host; returns the values read after each, and after all
    hosts have finished theirs."""
    program = Program(rank, sparse=sparse)
    z, replicas = [], []
    with program.session(addresses, rank, learners[rank], adaptive) as session:
        session.run(program.init)
        for run, rows in enumerate(runs[rank]):
            session.run(program.train, program.feeds(rank, run, rows))
            z.append(session.run(program.w).tolist())
            replicas.append(
                [session.learner_value(program.w, j).tolist() for j in range(learners[rank])]
            )
        session.save_state(path)
        counts = _counts(session)
        records = _records(session)
        last = session.run(program.w).tolist()
        session.merge()
        return {
            "z": z,
            "replicas": replicas,
            "last": last,
            "merged": session.run(program.w).tolist(),
            "records": records,
            "counts": counts,
            "left": _records(session)[len(records) :],
        }


def pipelines(
    rank: int,
    addresses: list[str],
    learners: list[int],
    elements: list[list[int]],
    adaptive: dict[str, Any],
    scheduling: str = "round_robin",
) -> dict[str, Any]:
    """Trains on so many elements of so many rows, by host, until the data ends on all."""
    program = Program(rank, elements=elements[rank])
    z = []
    error = ""
    with program.session(addresses, rank, learners[rank], adaptive, scheduling) as session:
        session.run(program.init)
        session.run(program.iterator.initializer)
        try:
            for _ in range(1000):
                session.run(program.train)
                z.append(session.run(program.w).tolist())
        except tf.errors.OutOfRangeError as end:
            error = type(end).__name__
        return {
            "z": z,
            "last": session.run(program.w).tolist(),
            "replica": session.learner_value(program.w, 0).tolist(),
            "records": _records(session),
            "counts": _counts(session),
            "error": error,
        }


def fails(
    rank: int, addresses: list[str], runs: list[int], bad_run: int, adaptive: dict[str, Any]
) -> dict[str, Any]:
    """Makes a task of host 1 fail in a run; all continue. Runs end in the middle of a
    mega-batch."""
    program = Program(rank)
    errors, z = [], []
    with program.session(addresses, rank, 2, adaptive) as session:
        session.run(program.init)
        for run, rows in enumerate(runs):
            feeds = program.feeds(rank, run, rows)
            if rank == 1 and run == bad_run:
                feeds[program.bad] = np.nan
            try:
                session.run(program.train, feeds)
            except tf.errors.OpError as error:
                replicas = [session.learner_value(program.w, j).tolist() for j in range(2)]
                errors.append([run, _told(error), session.run(program.w).tolist(), replicas])
            z.append(session.run(program.w).tolist())
        return {
            "errors": errors,
            "z": z,
            "records": _records(session),
            "counts": _counts(session),
        }


def goes_on(
    rank: int,
    addresses: list[str],
    learners: list[int],
    runs: list[list[int]],
    adaptive: dict[str, Any],
    path: str,
    first: list[int],
    load: bool,
) -> dict[str, Any]:
    """Trains in these runs, and saves after the first ones, by host; or loads and continues."""
    program = Program(rank)
    with program.session(addresses, rank, learners[rank], adaptive) as session:
        if load:
            try:
                session.load_state(path)
            except tf.errors.OpError as error:
                return {"error": _told(error)}
        else:
            session.run(program.init)
        for run, rows in enumerate(runs[rank]):
            if load and run < first[rank]:
                continue
            if not load and run == first[rank]:
                session.save_state(path)
            session.run(program.train, program.feeds(rank, run, rows))
        replicas = [session.learner_value(program.w, j).tolist() for j in range(learners[rank])]
        last = session.run(program.w).tolist()
        sizes = _records(session)[-1]
        session.save_state(f"{path}-end")  # waits for all
        return {"replicas": replicas, "last": last, "record": sizes, "counts": _counts(session)}


def differ(
    rank: int, addresses: list[str], learners: list[int], adaptive: list[dict[str, Any]]
) -> list[str]:
    """Runs hosts with different options; returns the error, if there is one."""
    program = Program(rank)
    try:
        with program.session(addresses, rank, learners[rank], adaptive[rank]) as session:
            session.run(program.init)
            session.run(program.train, program.feeds(rank, 0, 40))
    except tf.errors.OpError as error:
        return [_told(error)]
    return []


def writes(rank: int, addresses: list[str], adaptive: dict[str, Any], path: str) -> dict[str, Any]:
    """Trains host 1 on four times the rows before both write w and train another variable, too."""
    program = Program(rank)
    with program.session(addresses, rank, 1, adaptive) as session:
        session.run(program.init)
        for run in range(4 if rank == 1 else 1):
            session.run(program.train, program.feeds(rank, run, 50))
        before = len(session.adaptive)
        session.run(program.w.assign([7.0 + rank, 8.0, 9.0]))
        session.run(program.train, program.feeds(rank, 9, 1))
        written = session.run(program.w).tolist()
        for run in range(6):
            session.run(program.train_bias, program.feeds(rank, 10 + run, 20))
        session.save_state(path)  # waits for all
        last = [session.run(v).tolist() for v in (program.w, program.bias)]
        return {"merges": before, "written": written, "last": last}
