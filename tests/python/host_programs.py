"""The programs of hosts in cluster tests, see hosts.py."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing.util
import os
import pathlib
import signal
import socket
import threading
import time
import warnings
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tensorbow import _native

MARK = pathlib.Path()  # the file that mark() makes


def mark() -> None:
    """Signals to the test that the program has reached this point."""
    MARK.touch()


def _await_marks(count: int) -> None:
    """Waits until this number of hosts has called `mark()`."""
    deadline = time.monotonic() + 60
    while len(list(MARK.parent.glob("*.mark"))) < count:
        assert time.monotonic() < deadline, "a host has not come so far"
        time.sleep(0.01)


def _end_together(hosts: int) -> None:
    """Waits until all hosts have arrived: a host that ends at once may lose its last messages."""
    mark()
    _await_marks(hosts)


def _join(
    addresses: list[str],
    rank: int,
    start_limit: float = 60,
    hang_limit: float = 4,
    elastic: bool = False,
) -> Any:
    return _native.join_cluster(addresses, rank, start_limit, hang_limit, elastic)


def values_of(rank: int, dtype: str, size: int, turn: int) -> np.ndarray:
    """Returns a host's contribution: numbers whose sum is rounded."""
    random = np.random.default_rng([rank, size, turn])
    if dtype == "int64":
        return random.integers(-(1 << 40), 1 << 40, size)
    return random.standard_normal(size).astype(dtype)


def sums(rank: int, addresses: list[str], cases: list[list[Any]], turns: int) -> None:
    """Computes sums of all `cases` (dtype, size) repeatedly with the other hosts; checks their
    bits."""
    cluster = _join(addresses, rank)
    assert (cluster.size, cluster.rank) == (len(addresses), rank)
    made = [cluster.new_sum(np.dtype(dtype), size) for dtype, size in cases]
    for turn in range(turns):
        for s, (dtype, size) in zip(made, cases):
            s.start(values_of(rank, dtype, size, turn))
        for s, (dtype, size) in zip(made, cases):
            expected = values_of(0, dtype, size, turn)
            for other in range(1, len(addresses)):
                expected = expected + values_of(other, dtype, size, turn)
            np.testing.assert_array_equal(s.wait(), expected)
    _end_together(len(addresses))


def different_sums(rank: int, addresses: list[str]) -> str:
    """Computes different sums on the hosts; returns the error."""
    cluster = _join(addresses, rank)
    s = cluster.new_sum(np.dtype("float32"), 1000 + rank)
    s.start(np.ones(1000 + rank, np.float32))
    with pytest.raises(tf.errors.UnavailableError) as raised:
        s.wait()
    _end_together(len(addresses))
    return str(raised.value)


def one_after_the_other(rank: int, addresses: list[str]) -> list[float]:
    """Joins again when nothing of the first cluster exists; computes sums of another kind."""
    found = []
    for dtype, size in (("float32", 1000), ("int64", 7)):
        cluster = _join(addresses, rank)
        s = cluster.new_sum(np.dtype(dtype), size)
        s.start(np.full(size, rank + 1, dtype))
        found.append(float(s.wait().sum()))
        del cluster, s
    _end_together(len(addresses))
    return found


def until_it_fails(rank: int, addresses: list[str]) -> dict[str, Any]:
    """Computes sums until one fails; returns the seconds of waiting, and the reason."""
    cluster = _join(addresses, rank)
    s = cluster.new_sum(np.dtype("float32"), 1000)
    for turn in range(100_000):
        begin = time.monotonic()
        try:
            s.start(values_of(rank, "float32", 1000, turn))
            s.wait()
        except tf.errors.UnavailableError as error:
            later = None
            try:
                s.start(values_of(rank, "float32", 1000, turn))
                s.wait()
            except tf.errors.UnavailableError as again:
                later = str(again)
            waited = time.monotonic() - begin
            return {"error": str(error), "later": later, "seconds": waited, "turn": turn}
        if turn == 20:
            mark()
    raise AssertionError("no sum failed")


def fail(rank: int, addresses: list[str], size: int) -> dict[str, Any]:
    """Ends the cluster by host 1 while the others wait for it."""
    cluster = _join(addresses, rank)
    s = cluster.new_sum(np.dtype("float32"), size)
    s.start(np.ones(size, np.float32))
    s.wait()
    if rank == 1:
        cluster.fail("host 1 has had enough")
    begin = time.monotonic()
    try:
        s.start(np.ones(size, np.float32))
        s.wait()
    except tf.errors.UnavailableError as error:
        waited = time.monotonic() - begin
        _end_together(len(addresses))
        return {"error": str(error), "seconds": waited}
    raise AssertionError("the sum did not fail")


def _await_end_of(address: str) -> None:
    """Waits until the process that listens there has ended, which closes its end of a
    connection."""
    name, _, port = address.rpartition(":")
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection((name, int(port)), timeout=60) as connection,
    ):
        while connection.recv(1024):  # the first message of a server
            pass


def fail_and_end(rank: int, addresses: list[str]) -> str:
    """Makes host 1 fail and end while the others are busy; returns why their next sum fails."""
    cluster = _join(addresses, rank)
    s = cluster.new_sum(np.dtype("float32"), 1)
    if rank == 1:
        cluster.fail("host 1 has had enough")
        cluster.await_told_others()
        return ""
    _await_end_of(addresses[1])
    try:
        s.start(np.ones(1, np.float32))
        s.wait()
    except tf.errors.UnavailableError as error:
        return str(error)
    raise AssertionError("the sum did not fail")


def join(rank: int, addresses: list[str], *arguments: Any) -> str:
    """Tries to join; returns the error."""
    try:
        _join(addresses, rank, *arguments)
    except tf.errors.OpError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def port_is_taken(rank: int, addresses: list[str]) -> str:
    """Tries to join where another program listens; returns the error."""
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", int(addresses[rank].rpartition(":")[2])))
        taken.listen()
        return join(rank, addresses)


ROWS, COLUMNS = 6, 3  # of a host's batch
RATE, MOMENTUM = 0.125, 0.875  # exact in float32, in which TensorFlow keeps them
ADAM = 0.875, 0.96875, 2.0**-10  # β₁, β₂, ε


def rows_of(rank: int, iteration: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows that a host is fed."""
    random = np.random.default_rng([rank, iteration])
    x = random.standard_normal((ROWS, COLUMNS))
    return x, np.tanh(x.sum(1)) + 0.1 * random.standard_normal(ROWS)


class Regression:
    """Linear regression in float64; initial weights differ by host."""

    def __init__(
        self,
        rank: int,
        momentum: float = MOMENTUM,
        elements: int | None = None,
        adam: bool = False,
        repeats: bool = False,
    ) -> None:
        self.graph = tf.Graph()
        tf1 = tf.compat.v1
        with self.graph.as_default():
            if elements is None:
                self.x = tf1.placeholder(tf.float64, [None, COLUMNS])
                self.y = tf1.placeholder(tf.float64, [None])
            else:
                x, y = zip(*(rows_of(rank, k) for k in range(max(1, elements))))
                rows = tf.data.Dataset.from_tensor_slices((np.concatenate(x), np.concatenate(y)))
                data = rows.batch(ROWS).take(elements)
                data = data.repeat() if repeats else data
                self.iterator = tf1.data.make_initializable_iterator(data)
                self.x, self.y = self.iterator.get_next()
            self.late = tf1.placeholder_with_default(np.float64(0), [])
            x = tf.debugging.check_numerics(self.x, "x is not a number")
            self.w = tf1.get_variable("w", dtype=tf.float64, initializer=weights_of(rank))
            self.b = tf1.get_variable("b", dtype=tf.float64, initializer=np.float64(rank))
            errors = tf.linalg.matvec(x, self.w) + self.b - self.y
            self.loss = tf.reduce_mean(tf.square(errors))
            optimiser = tf1.train.MomentumOptimizer(RATE, momentum)
            if adam:
                optimiser = tf1.train.AdamOptimizer(RATE, *ADAM)
            self.train = optimiser.minimize(self.loss, tf1.train.get_or_create_global_step())
            with tf.control_dependencies([self.train]):
                last = tf.debugging.check_numerics(self.late, "late is not a number")
            with tf.control_dependencies([last]):
                self.train_and_check = tf.no_op()
            self.init = tf1.global_variables_initializer()

    def session(
        self,
        addresses: list[str],
        rank: int,
        learners: int,
        period: int = 1,
        elastic: bool = False,
        **options: Any,
    ) -> Any:
        """Makes a session on all hosts, which are averaged in every `period`-th iteration: by
        models, by default."""
        options.setdefault("synchroniser", tensorbow.SMA())
        cluster = tensorbow.Cluster(
            addresses, rank, start_limit_seconds=60, sync_period=period, elastic=elastic
        )
        return tensorbow.TensorBowSession(
            graph=self.graph,
            options=tensorbow.Options(
                learners_per_device=learners, cluster=cluster, pin_threads=False, **options
            ),
        )

    def feeds(self, rank: int, iteration: int) -> dict[Any, np.ndarray]:
        return dict(zip((self.x, self.y), rows_of(rank, iteration)))


def weights_of(rank: int) -> np.ndarray:
    """Returns a host's initial weights."""
    return np.random.default_rng(rank).standard_normal(COLUMNS)


def trains(
    rank: int,
    addresses: list[str],
    learners: int,
    iterations: int,
    options: dict[str, Any],
    synchroniser: str = "SMA",
    adam: bool = False,
    period: int = 1,
) -> dict[str, Any]:
    """Trains and returns z after runs, and the learners' final values."""
    program = Regression(rank, adam=adam)
    chosen = getattr(tensorbow, synchroniser)(**options) if synchroniser != "auto" else "auto"
    with program.session(addresses, rank, learners, period, synchroniser=chosen) as session:
        session.run(program.init)
        z = []
        for iteration in range(iterations):
            session.run(program.train, program.feeds(rank, iteration))
            if iteration % 5 == 4:
                z.append([session.run(v).tolist() for v in (program.w, program.b)])
        replicas = [
            [session.learner_value(v, j).tolist() for v in (program.w, program.b)]
            for j in range(learners)
        ]
        counts = session.iterations, session.learning_tasks, session.samples_seen
        chosen = type(session.synchroniser).__name__
    return {"z": z, "replicas": replicas, "counts": counts, "synchroniser": chosen}


def fails(
    rank: int,
    addresses: list[str],
    learners: int,
    runs: int,
    bad: list[list[int]],
    synchroniser: str = "SMA",
    period: int = 1,
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Trains by gradient descent, in runs some of which fail: `bad` are (host, run).

    Returns z after every run, and the errors by run.
    """
    program = Regression(rank, momentum=0.0)
    chosen = getattr(tensorbow, synchroniser)(**(options or {}))
    with program.session(addresses, rank, learners, period, synchroniser=chosen) as session:
        session.run(program.init)
        z, errors = [], {}
        for run in range(runs):
            feeds = program.feeds(rank, run)
            if [rank, run] in bad:
                feeds[program.x][-1] = np.nan
            try:
                session.run(program.train, feeds)
            except tf.errors.OpError as error:
                errors[run] = f"{type(error).__name__}: {error.message}"
            z.append([session.run(v).tolist() for v in (program.w, program.b)])
        counts = session.iterations, session.learning_tasks, session.samples_seen
    return {"z": z, "errors": errors, "counts": counts}


def fails_late(
    rank: int, addresses: list[str], learners: int, bad: list[int], elastic: bool = False
) -> dict[str, Any]:
    """Makes a run fail on one host under S-SGD, `bad` are (host, run), after its updates."""
    program = Regression(rank)
    synchroniser = tensorbow.SSGD()
    with program.session(
        addresses, rank, learners, elastic=elastic, synchroniser=synchroniser
    ) as session:
        session.run(program.init)
        z, errors = [], {}
        for run in range(8):
            late = np.nan if [rank, run] == bad else 0.0
            feeds = program.feeds(rank, run) | {program.late: late}
            try:
                session.run(program.train_and_check, feeds)
            except tf.errors.OpError as error:
                errors[run] = f"{type(error).__name__}: {error.message}"
            z.append([session.run(v).tolist() for v in (program.w, program.b)])
        counts = session.iterations, session.learning_tasks, session.samples_seen
    return {"z": z, "errors": errors, "counts": counts}


def pipelines(
    rank: int,
    addresses: list[str],
    learners: int,
    elements: list[int],
    epochs: int,
    synchroniser: str = "SMA",
    period: int = 1,
    options: dict[str, Any] | None = None,
    elastic: bool = False,
) -> dict[str, Any]:
    """Trains on elements of a tf.data pipeline, by host, again and again."""
    program = Regression(rank, elements=elements[rank])
    z, runs = [], []
    chosen = getattr(tensorbow, synchroniser)(**(options or {}))
    with program.session(
        addresses, rank, learners, period, elastic, synchroniser=chosen
    ) as session:
        session.run(program.init)
        for _ in range(epochs):
            session.run(program.iterator.initializer)
            runs.append(0)
            try:
                while True:
                    session.run(program.train)
                    runs[-1] += 1
            except tf.errors.OutOfRangeError:
                z.append([session.run(v).tolist() for v in (program.w, program.b)])
        counts = session.iterations, session.learning_tasks, session.samples_seen
    return {"z": z, "runs": runs, "counts": counts}


def leaves(
    rank: int,
    addresses: list[str],
    runs: list[int],
    synchroniser: str = "SMA",
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Trains `runs` times, by host, and closes the session."""
    program = Regression(rank)
    chosen = getattr(tensorbow, synchroniser)(**(options or {}))
    with program.session(addresses, rank, 1, synchroniser=chosen) as session:
        session.run(program.init)
        for run in range(runs[rank]):
            session.run(program.train, program.feeds(rank, run))
        z = [session.run(v).tolist() for v in (program.w, program.b)]
        trained = session.iterations
    return {"z": z, "iterations": trained}


def looks_alone(rank: int, addresses: list[str], runs: int) -> dict[str, Any]:
    """Trains in two sessions; between them the first host opens one of its own and reads."""
    program = Regression(rank)
    found = []
    for _ in range(2):
        with program.session(addresses, rank, 1) as session:
            session.run(program.init)
            for run in range(runs):
                session.run(program.train, program.feeds(rank, run))
            found.append([session.run(v).tolist() for v in (program.w, program.b)])
        if rank == 0:
            with program.session(addresses, rank, 1) as session:
                program.w.load(np.array(found[-1][0]), session)
                assert session.run(program.w).tolist() == found[-1][0]
    _end_together(len(addresses))
    return {"found": found}


def differs(rank: int, addresses: list[str], how: str) -> str:
    """Differs from host 0 in one way; returns the error."""
    other = rank > 0
    program = Regression(rank)
    if other and how == "variables":
        with program.graph.as_default():
            optimiser = tf.compat.v1.train.GradientDescentOptimizer(RATE)
            program.train = optimiser.minimize(program.loss)
    options: dict[str, Any] = {}
    if other and how == "options":
        options["synchroniser"] = tensorbow.SMA(sync_period=2)
    if other and how == "period":
        options["period"] = 2
    learners = 2 if other and how == "learners" else 1
    with program.session(addresses, rank, learners, **options) as session:
        session.run(program.init)
        try:
            for run in range(4):
                if other and how == "writes" and run == 2:
                    program.w.load(weights_of(0), session)
                session.run(program.train, program.feeds(rank, run))
        except tf.errors.OpError as error:
            _end_together(len(addresses))
            return f"{type(error).__name__}: {error.message}"
    return ""


def embeds(rank: int, addresses: list[str], synchroniser: str) -> list[str]:
    """Trains an embedding by Adam; returns the choice or the error, and whether it learns."""
    tf1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        ids = tf1.placeholder(tf.int32, [None])
        table = tf1.get_variable("table", [50, 4])
        loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids) - 1))
        train = tf1.train.AdamOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(
        learners_per_device=2,
        cluster=tensorbow.Cluster(addresses, rank, start_limit_seconds=60),
        synchroniser=tensorbow.SSGD() if synchroniser == "SSGD" else "auto",
        pin_threads=False,
    )
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        try:
            for run in range(20):
                session.run(train, {ids: np.arange(8) + run % 3 + 10 * rank})
        except tf.errors.OpError as error:
            return [f"{type(error).__name__}: {error.message}"]
        return [type(session.synchroniser).__name__]


def keras_fits(
    rank: int,
    addresses: list[str],
    learners: int,
    batches: int,
    epochs: int,
    adam: bool = False,
    synchroniser: str = "SMA",
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Fits the same regression in Keras; returns the weights after every epoch. Uses Adam and
    "auto"."""
    import keras

    initial = weights_of(rank)[:, None], np.array([float(rank)])
    model = keras.Sequential([keras.layers.Dense(1, dtype="float64")])
    model.build((None, COLUMNS))
    model.set_weights(initial)
    tensorbow.keras.replicate(
        model,
        tensorbow.Options(
            learners_per_device=learners,
            cluster=tensorbow.Cluster(addresses, rank, start_limit_seconds=60),
            pin_threads=False,
            synchroniser="auto" if adam else getattr(tensorbow, synchroniser)(**(options or {})),
        ),
    )
    sgd = keras.optimizers.SGD(RATE, momentum=MOMENTUM)
    model.compile(keras.optimizers.Adam(RATE, *ADAM) if adam else sgd, "mse")
    z: list[Any] = []
    remember = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: z.append([w.ravel().tolist() for w in model.get_weights()])
    )
    x, y = map(np.concatenate, zip(*(rows_of(rank, k) for k in range(batches))))
    history = model.fit(x, y, ROWS, epochs=epochs, shuffle=False, verbose=0, callbacks=[remember])
    chosen = type(tensorbow.keras.session_of(model).synchroniser).__name__
    return {"z": z, "losses": history.history["loss"], "synchroniser": chosen}


def program_fails(rank: int, addresses: list[str]) -> str:
    """Makes host 1's program fail outside of its session; returns the error on the others."""
    program = Regression(rank)
    try:
        with program.session(addresses, rank, 1) as session:
            session.run(program.init)
            for run in range(100_000):
                session.run(program.train, program.feeds(rank, run))
                if rank == 1 and run == 5:
                    raise RuntimeError("disk full")
    except RuntimeError:
        return ""
    except tf.errors.UnavailableError as error:
        return error.message
    raise AssertionError("nothing failed")


def trains_on(rank: int, addresses: list[str], synchroniser: str = "SMA") -> dict[str, Any]:
    """Trains until a run fails; returns the seconds, and the reason."""
    program = Regression(rank)
    chosen = getattr(tensorbow, synchroniser)()
    with program.session(addresses, rank, 1, synchroniser=chosen) as session:
        session.run(program.init)
        for run in range(100_000):
            begin = time.monotonic()
            try:
                session.run(program.train, program.feeds(rank, run))
            except tf.errors.OpError as error:
                waited = time.monotonic() - begin
                return {"error": f"{type(error).__name__}: {error.message}", "seconds": waited}
            if run == 20:
                mark()
    raise AssertionError("no run failed")


def ends(rank: int, addresses: list[str]) -> dict[str, Any]:
    """Ends host 1 in its last iteration, without closing its session, before host 0 makes its own,
    reads, and closes its session."""
    program = Regression(rank)
    session = program.session(addresses, rank, 1)
    session.run(program.init)
    for run in range(2):
        session.run(program.train, program.feeds(rank, run))
    if rank == 0:
        _await_marks(1)
    session.run(program.train, program.feeds(rank, 2))
    if rank == 1:
        globals()["kept"] = session  # until the process ends
        multiprocessing.util.Finalize(None, mark, exitpriority=100)  # just before its end
        return {}
    z = session.run(program.w).tolist()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        session.close()
    return {"z": z, "told": [str(warning.message) for warning in told]}


def _die_soon(delay: float) -> None:
    """Kills this process after `delay` seconds, whatever it does then."""
    killer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL))
    killer.daemon = True
    killer.start()


def _fail_when_it_has_died(hosts: Any, rank: int, address: str) -> None:
    """Makes this host's sums fail as soon as that host does not listen any more: others may just
    have received theirs."""

    def watch() -> None:
        _await_end_of(address)
        hosts.fail(f"host {rank} ({address}) does not answer: it has died")

    threading.Thread(target=watch, daemon=True).start()


def goes_on(
    rank: int,
    addresses: list[str],
    learners: int,
    runs: int,
    deaths: dict[str, list[float]],
    synchroniser: str = "SMA",
    options: dict[str, Any] | None = None,
    elements: bool = False,
) -> dict[str, Any]:
    """Trains by gradient descent on elastic hosts, some of which die. `deaths`: by rank, the run
    and the seconds after its start. Returns z after every run.

    With `elements` they are those of a tf.data pipeline.
    """
    program = Regression(rank, momentum=0.0, elements=runs if elements else None)
    chosen = getattr(tensorbow, synchroniser)(**(options or {}))
    run_of_death, delay = deaths.get(str(rank), [-1, 0.0])
    z, seconds = [], []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with program.session(
            addresses, rank, learners, elastic=True, synchroniser=chosen
        ) as session:
            session.run(program.init)
            if elements:
                session.run(program.iterator.initializer)
            for run in range(runs):
                if run == 10:
                    mark()
                if run == run_of_death:
                    _die_soon(delay)
                begin = time.monotonic()
                session.run(program.train, {} if elements else program.feeds(rank, run))
                seconds.append(time.monotonic() - begin)
                z.append([session.run(v).tolist() for v in (program.w, program.b)])
            counts = session.iterations, session.learning_tasks, session.samples_seen
    texts = [str(w.message) for w in warned if "host of the cluster is lost" in str(w.message)]
    return {"z": z, "counts": counts, "warned": texts, "seconds": max(seconds)}


def keras_regression(
    rank: int, addresses: list[str], learners: int, synchroniser: str, optimiser: Any = None
) -> Any:
    """Makes the same regression in Keras, on elastic hosts; by gradient descent, unless another
    optimiser is given."""
    import keras

    model = keras.Sequential([keras.layers.Dense(1, dtype="float64")])
    model.build((None, COLUMNS))
    model.set_weights((weights_of(rank)[:, None], np.array([float(rank)])))
    options = tensorbow.Options(
        learners_per_device=learners,
        cluster=tensorbow.Cluster(addresses, rank, start_limit_seconds=60, elastic=True),
        pin_threads=False,
        synchroniser=getattr(tensorbow, synchroniser)(),
    )
    tensorbow.keras.replicate(model, options)
    model.compile(optimiser or keras.optimizers.SGD(RATE), "mse")
    return model


def goes_on_until_told(rank: int, addresses: list[str]) -> dict[str, Any]:
    """Trains on elastic hosts until `MARK.parent` has a file "stop"; makes one when hosts have been
    lost. Returns the weights after every run, or the error."""
    program = Regression(rank, momentum=0.0)
    z: list[Any] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            with program.session(addresses, rank, 1, elastic=True) as session:
                session.run(program.init)
                for run in range(1_000_000):
                    session.run(program.train, program.feeds(rank, run % 100))
                    z.append(session.run(program.w).tolist())
                    if run == 10:
                        mark()
                    if any("host of the cluster is lost" in str(w.message) for w in warned):
                        (MARK.parent / f"lost{rank}").touch()
                    if (MARK.parent / "stop").exists():
                        break
        except tf.errors.OpError as error:
            return {"z": z, "error": f"{type(error).__name__}: {error.message}"}
    return {"z": z, "error": ""}


def saves_on(
    rank: int, addresses: list[str], path: str, deaths: dict[str, list[float]]
) -> dict[str, Any]:
    """Trains on elastic hosts, one learner each, and saves after every 5th run. `deaths`: by rank,
    the run after whose save it dies, and the seconds until then."""
    program = Regression(rank)
    run_of_death, delay = deaths.get(str(rank), [-1, 0.0])
    error, w, run = "", [], 0
    try:
        with program.session(addresses, rank, 1, elastic=True) as session:
            session.run(program.init)
            for run in range(30):
                session.run(program.train, program.feeds(rank, run))
                if run == run_of_death:
                    _die_soon(delay)
                if run % 5 == 4:
                    session.save_state(path)
            w = session.run(program.w).tolist()
    except tf.errors.OpError as failure:
        error = f"{type(failure).__name__}: {failure.message}"
    return {"w": w, "error": error, "run": run}


def loads(rank: int, addresses: list[str], path: str) -> list[float]:
    """Returns the weights in a saved state."""
    program = Regression(rank)
    with program.session(addresses, rank, 1) as session:
        session.load_state(path)
        weights: list[float] = session.run(program.w).tolist()
    return weights


def saves(
    rank: int,
    addresses: list[str],
    learners: int,
    synchroniser: str,
    path: str,
    runs: list[int],
    load: bool,
    late: list[int],
    period: int = 1,
    options: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Trains in the given runs, from a saved state or the start, and saves after every 5th.

    `late` hosts lose their last save before they load, as if they had been killed before they
    committed it. Returns final weights and slots, counts and the error, if there is one.
    """
    program = Regression(rank)
    if rank in late:
        part = pathlib.Path(f"{path}-host{rank}")
        part.write_bytes(pathlib.Path(f"{path}-host{rank}.before").read_bytes())
    chosen = getattr(tensorbow, synchroniser)(**(options or {}))
    values: list[Any] = []
    error = ""
    with program.session(addresses, rank, learners, period, synchroniser=chosen) as session:
        try:
            if load:
                session.load_state(path)
            else:
                session.run(program.init)
            begin = session.iterations
            for run in range(begin, runs[rank]):
                session.run(program.train, program.feeds(rank, run))
                if run % 5 == 4:
                    part = pathlib.Path(f"{path}-host{rank}")
                    if part.exists():
                        part.with_name(part.name + ".before").write_bytes(part.read_bytes())
                    session.save_state(path)
        except tf.errors.OpError as failure:
            error = f"{type(failure).__name__}: {failure.message}"
        else:
            with program.graph.as_default():
                variables = tf.compat.v1.global_variables()
            for variable in variables:
                values.append(session.run(variable).tolist())
                values += [session.learner_value(variable, j).tolist() for j in range(learners)]
        counts = session.iterations, session.learning_tasks, session.samples_seen
    return {"values": values, "counts": counts, "error": error}


def chunks(
    rank: int, addresses: list[str], learners: int, chunk: int | str | None, runs: int
) -> dict[str, Any]:
    """Trains a network of many variables under S-SGD; returns the chunks of its gradients."""
    graph = tf.compat.v1.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, COLUMNS])
        y = tf.compat.v1.placeholder(tf.float32, [None])
        hidden, weights = x, []
        for layer in range(6):
            initial = np.random.default_rng(layer).standard_normal((COLUMNS, COLUMNS)) / COLUMNS
            weights.append(
                tf.compat.v1.get_variable(f"w{layer}", initializer=initial.astype(np.float32))
            )
            weights.append(
                tf.compat.v1.get_variable(
                    f"b{layer}", [COLUMNS], initializer=tf.compat.v1.zeros_initializer()
                )
            )
            hidden = tf.tanh(tf.matmul(hidden, weights[-2]) + weights[-1])
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(hidden, 1) - y))
        train = tf.compat.v1.train.GradientDescentOptimizer(RATE).minimize(loss)
        init = tf.compat.v1.global_variables_initializer()
    options = tensorbow.Options(
        learners_per_device=learners,
        synchroniser=tensorbow.SSGD(),
        cluster=tensorbow.Cluster(addresses, rank, start_limit_seconds=60, chunk=chunk),
        pin_threads=False,
    )
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        for run in range(runs):
            rows, targets = rows_of(rank, run)
            session.run(train, {x: rows.astype(np.float32), y: targets.astype(np.float32)})
        bits = hashlib.sha256(b"".join(w.tobytes() for w in session.run(weights))).hexdigest()
        return {"bits": bits, "chunk": session.metrics().host_chunk}
