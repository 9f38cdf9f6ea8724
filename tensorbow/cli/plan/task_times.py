"""Times of a learning task on this machine, layer by layer.

    python -m tensorbow.cli.plan.task_times JOB

prints, as JSON, what one host measures; JOB is the JSON of `Job`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow
from tensorbow.cli import tune
from tensorbow.cli.plan.cost_model import Layer, Task

tf1 = tf.compat.v1

WARM_UP = 10  # iterations: compiles, fills caches
TRACES = 7
_GRADIENTS = {"grad", "delta"}  # as update operations call them


@dataclasses.dataclass(frozen=True)
class Job:
    """The program to measure.

    Attributes:
      model: a key of models.MODELS; "" for a script.
      rows: of a host's iteration, with a model.
      script, arguments: a program.
      learners: of the host.
      seconds: how long its iterations are watched.
    """

    model: str
    rows: int
    script: str
    arguments: tuple[str, ...]
    learners: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class Measured:
    """The times of one host without others.

    Attributes:
      task: an iteration; its layers are the updates of variables, in order.
      rows: of an iteration.
      iterations: seconds of each that was watched.
      work: their CPU seconds, of the whole process.
      memory: bytes per second that a core reads and writes.
    """

    task: Task
    rows: int
    iterations: tuple[float, ...]
    work: tuple[float, ...]
    memory: float


def measure(job: Job, cores: Iterable[int]) -> Measured:
    """Measures a job in a process of its own, on these cores.

    Raises:
      RuntimeError: if nothing was learned, with the output of the process.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cores))  # the process inherits them
    # A lone learner uses oneDNN only on one of several hosts; the prediction is for those.
    environment = {"TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        process = subprocess.run(
            [
                sys.executable,
                "-m",
                "tensorbow.cli.plan.task_times",
                json.dumps(dataclasses.asdict(job)),
            ],
            capture_output=True,
            text=True,
            env=os.environ | environment,
        )
    finally:
        os.sched_setaffinity(0, before)
    if process.returncode != 0:
        raise RuntimeError(process.stderr.strip()[-2000:])
    found = json.loads(process.stdout.splitlines()[-1])
    layers = tuple(Layer(*layer) for layer in found["task"]["layers"])
    task = Task(found["task"]["forward"], layers, found["task"]["rest"])
    iterations, work = tuple(found["iterations"]), tuple(found["work"])
    return Measured(task, found["rows"], iterations, work, found["memory"])


def updates_of(graph: tf.Graph) -> dict[str, tuple[str, int]]:
    """Returns the update operations of a graph by name: their variable's name and its bytes."""
    variables = graph.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES)
    sizes = {variable.op.name: _size_bytes(variable) for variable in variables}
    found = {}
    for operation in graph.get_operations():
        names = {argument.name for argument in operation.op_def.input_arg}
        if "Apply" not in operation.type or not names & _GRADIENTS:
            continue
        variable = operation.inputs[0].op.name
        if variable in sizes:
            found[operation.name] = (variable, sizes[variable])
    return found


def task_of(stats: Sequence[Any], updates: dict[str, tuple[str, int]]) -> Task:
    """Returns the median of every part of traced tasks (NodeExecStats of each), in microseconds.

    A layer is from the end of the update before it to the end of its own.
    """
    forward, rest = [], []
    layers: dict[str, list[float]] = {}
    for nodes in stats:
        begin = min(node.all_start_micros for node in nodes)
        end = max(node.all_start_micros + node.all_end_rel_micros for node in nodes)
        made = sorted(
            (node.all_start_micros + node.all_end_rel_micros, node.all_start_micros, node.node_name)
            for node in nodes
            if node.node_name in updates
        )
        last = made[0][1] if made else begin
        forward.append(last - begin)
        for updated, _, name in made:
            layers.setdefault(name, []).append(updated - last)
            last = updated
        rest.append(end - last)
    found = [
        Layer(updates[name][0], float(np.median(taken)), updates[name][1])
        for name, taken in layers.items()
    ]
    return Task(float(np.median(forward)), tuple(found), float(np.median(rest)))


def with_others(task: Task, graph: tf.Graph) -> Task:
    """Returns the task with the trainable variables that are updated otherwise, at its end.

    Where all are, learners wait for each other before it begins: nothing hides behind it.
    """
    known = {layer.name for layer in task.layers}
    variables = graph.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES)
    others = sum(_size_bytes(v) for v in variables if v.op.name not in known)
    if not task.layers:
        return Task(0.0, (Layer("all variables", task.seconds, others),))
    if others == 0:
        return task
    return Task(task.forward, (*task.layers, Layer("other variables", 0.0, others)), task.rest)


def _size_bytes(variable: Any) -> int:
    return int(variable.shape.num_elements() * variable.dtype.size)


class _EnoughError(BaseException):
    """Ends a program that has been watched long enough; no `except Exception` stops it."""


class _Watch:
    """Times the learning runs of a session, and then traces some."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._seen = 0
        self.iterations: list[float] = []
        self.work: list[float] = []
        self.rows = 0
        self.task: Task | None = None

    def run(
        self, session: tensorbow.TensorBowSession, run: Callable[..., Any], *given: Any, **more: Any
    ) -> Any:
        """Measures a run of the program."""
        before, rows = session.iterations, session.samples_seen
        begin, work = time.perf_counter(), time.process_time()
        result = run(*given, **more)
        seconds, work = time.perf_counter() - begin, time.process_time() - work
        count = session.iterations - before
        if count == 0:
            return result
        self._seen += count
        if self._seen <= WARM_UP:
            return result
        self.iterations += [seconds / count] * count
        self.work += [work / count] * count
        self.rows = (session.samples_seen - rows) // count
        self._left -= seconds
        if self._left < 0:
            self._trace(session, run, given, more)
            raise _EnoughError
        return result

    def _trace(
        self,
        session: tensorbow.TensorBowSession,
        run: Callable[..., Any],
        given: tuple[Any, ...],
        more: dict[str, Any],
    ) -> None:
        updates = updates_of(session.graph)
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        traces = []
        for _ in range(TRACES):
            metadata = tf1.RunMetadata()
            run(*given, **{**more, "options": options, "run_metadata": metadata})
            traces += [
                list(device.node_stats)
                for device in metadata.step_stats.dev_stats
                if device.device.endswith("/learner:0")
            ]
        task = with_others(task_of(traces, updates), session.graph)
        self.task = task.scaled_to(float(np.median(self.iterations)))


@contextlib.contextmanager
def _watched(watch: _Watch, learners: int) -> Iterator[None]:
    """Sessions that a program makes, stock ones too, are of one host and watched."""

    class Watched(tensorbow.TensorBowSession):
        def __init__(
            self, target: Any = "", graph: Any = None, config: Any = None, options: Any = None
        ) -> None:
            options = dataclasses.replace(
                options or tensorbow.Options(),
                learners_per_device=learners,
                cluster=None,
                synchroniser=tensorbow.SMA(),
            )
            super().__init__(target, graph, config, options)

        def run(self, *given: Any, **more: Any) -> Any:
            return watch.run(self, super().run, *given, **more)

    with tune.sessions_are(Watched):
        yield


def watch(job: Job) -> _Watch:
    """Runs the job's program until it has been watched long enough."""
    watch = _Watch(job.seconds)
    with _watched(watch, job.learners), contextlib.suppress(_EnoughError):
        if job.script:
            sys.argv = [job.script, *job.arguments]
            sys.path.insert(0, str(pathlib.Path(job.script).resolve().parent))
            runpy.run_path(job.script, run_name="__main__")
        else:
            _train(job)
    return watch


def _train(job: Job) -> None:
    program, feeds = tune.model_with_rows(job.model, job.rows)
    with tensorbow.TensorBowSession(graph=program.graph) as session:
        session.run(program.init)
        while True:
            session.run(program.train_op, feeds)


def memory_bandwidth() -> float:
    """Bytes per second that a core reads and writes, out of cache."""
    a, b = np.ones(1 << 23, np.float32), np.ones(1 << 23, np.float32)
    c = np.empty_like(a)
    fastest = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        np.add(a, b, out=c)
        fastest = min(fastest, time.perf_counter() - begin)
    return 3 * a.nbytes / float(fastest)


def _main() -> None:
    given = json.loads(sys.argv[1])
    job = Job(**given | {"arguments": tuple(given["arguments"])})
    found = watch(job)
    if found.task is None:
        sys.exit(
            "Nothing was measured: no session trained long enough. Wanted learning runs for "
            f"{job.seconds:g} s, in sessions of TensorFlow or TensorBow."
        )
    layers = [dataclasses.astuple(layer) for layer in found.task.layers]
    task = {"forward": found.task.forward, "layers": layers, "rest": found.task.rest}
    measured = {
        "task": task,
        "rows": found.rows,
        "iterations": found.iterations,
        "work": found.work,
        "memory": memory_bandwidth(),
    }
    print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    _main()
