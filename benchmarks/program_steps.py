"""A program in a process of its own, whose training steps wait for their turns.

    python benchmarks/program_steps.py KIND:NAME [stock]

Each line on standard input grants a turn of so many seconds, of one step at least. The answer is
the seconds of its steps, as JSON. A session program's first run that trains is its step: after
`OWN_STEPS` of them the same run is repeated. The end of the input ends the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
OWN_STEPS = 40
_UPDATE = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]|(Resource)?Scatter(Sub|Add)|Assign(Add|Sub)")


class Turns:
    """The steps of this process, of which none starts outside a turn."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self._until = -1.0
        self._begin = 0.0
        self._seconds: list[float] = []

    def start_step(self) -> None:
        """Waits for a turn if none is left."""
        self._begin = time.perf_counter()
        if self._begin < self._until:
            return
        self._answer()
        granted = sys.stdin.readline()
        if not granted:
            os._exit(0)  # a program's threads may still wait for data
        self._begin = time.perf_counter()
        self._until = self._begin + float(granted)

    def end_step(self) -> None:
        self._seconds.append(time.perf_counter() - self._begin)

    def end(self) -> None:
        """Answers with the last steps and ends the process."""
        self._answer()
        os._exit(0)

    def _answer(self) -> None:
        self._answers.write(json.dumps(self._seconds) + "\n")
        self._seconds = []


def _trains(fetched: list[Any]) -> bool:
    """Returns true if an ancestor of the fetches updates a variable by a gradient."""
    pending = [getattr(element, "op", element) for element in fetched]
    seen = set(pending)
    while pending:
        op = pending.pop()
        if _UPDATE.match(op.type) and "global_step" not in op.inputs[0].name:
            return True
        found = {*(tensor.op for tensor in op.inputs), *op.control_inputs} - seen
        seen |= found
        pending += found
    return False


class Timed:
    """Sessions of a program, the runs of which take turns if they train."""

    def __init__(self, sessions: Any, turns: Turns) -> None:
        self._sessions = sessions
        self._turns = turns
        self._step: Any = None
        self._kinds: dict[Any, bool] = {}
        self._done = 0

    def _is_step(self, graph: Any, fetches: Any) -> bool:
        from tensorflow.python.client.session import _FetchMapper

        with graph.as_default():  # in any thread
            fetched = _FetchMapper.for_fetch(fetches).unique_fetches()
        key = tuple(getattr(element, "name", element) for element in fetched)
        if key not in self._kinds:
            known = [element for element in fetched if hasattr(element, "graph")]
            self._kinds[key] = _trains(known)
        if self._step is None and self._kinds[key]:
            self._step = key
        return bool(key == self._step)

    def _timed(self, session: Any) -> Any:
        run = session.run

        def timed(fetches: Any, *arguments: Any, **named: Any) -> Any:
            if not self._is_step(session.graph, fetches):
                return run(fetches, *arguments, **named)
            self._done += 1
            while True:
                self._turns.start_step()
                result = run(fetches, *arguments, **named)
                self._turns.end_step()
                if self._done < OWN_STEPS:
                    return result

        session.run = timed
        return session

    def Session(self, **arguments: Any) -> Any:  # noqa: N802
        return self._timed(self._sessions.Session(**arguments))

    def InteractiveSession(self, **arguments: Any) -> Any:  # noqa: N802
        return self._timed(self._sessions.InteractiveSession(**arguments))

    def session_creator(self, *arguments: Any, **named: Any) -> Any:
        creator = self._sessions.session_creator(*arguments, **named)
        create = creator.create_session
        creator.create_session = lambda: self._timed(create())
        return creator

    def session_manager(self, **arguments: Any) -> Any:
        manager = self._sessions.session_manager(**arguments)
        prepare = manager.prepare_session
        manager.prepare_session = lambda *a, **k: self._timed(prepare(*a, **k))
        return manager


@contextlib.contextmanager
def _harness() -> Iterator[Any]:
    """Imports the harness of tests/programs; sessions keep a user's threads and kernels."""
    import tensorflow as tf

    switch = "TF_ENABLE_ONEDNN_OPTS"
    given = os.environ.get(switch)
    tf.compat.v1.Session(graph=tf.Graph()).close()  # the first one fixes the threads of all
    from tests.programs import _harness as harness

    os.environ.pop(switch) if given is None else os.environ.update({switch: given})
    with harness.version_1_behaviour():
        yield harness


def execute_in_sessions(program: Any, turns: Turns, stock: bool) -> None:
    """Executes a module or function of a program with default options."""
    import numpy as np
    import tensorflow as tf

    import tensorbow

    with _harness() as harness, tf.Graph().as_default():
        sessions = harness.Sessions() if stock else harness.LearnerSessions(1)
        sessions.options = tensorbow.Options()
        train = harness.program(program).train if isinstance(program, str) else program
        np.random.seed(1)  # noqa: NPY002 - for the programs' own numbers
        with tempfile.TemporaryDirectory() as directory, contextlib.suppress(tf.errors.OpError):
            train(Timed(sessions, turns), 1, pathlib.Path(directory))


def execute_fit(make: Any, turns: Turns, stock: bool) -> None:
    """Fits a Keras model; the first step begins with the call of `fit`."""
    import keras

    import tensorbow

    class Turn(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            turns.end_step()
            turns.start_step()

    model, data, compiled = make()
    if not stock:
        tensorbow.keras.replicate(model)
    model.compile(**compiled)
    turns.start_step()
    model.fit(*data, batch_size=32, epochs=10**6, verbose=0, callbacks=[Turn()])


def main() -> None:
    """Executes one program."""
    sys.path.insert(0, str(ROOT))
    kind, name = sys.argv[1].split(":")
    stock, turns = "stock" in sys.argv[2:], Turns()
    if kind == "keras":
        import keras_programs

        execute_fit(keras_programs.PROGRAMS[name], turns, stock)
    elif kind == "session":
        import session_programs

        execute_in_sessions(session_programs.PROGRAMS[name], turns, stock)
    else:
        execute_in_sessions(name, turns, stock)
    turns.end()


if __name__ == "__main__":
    main()
