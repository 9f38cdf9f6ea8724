"""A function in a process of its own: a copy of one that has imported TensorFlow, which takes
seconds, and has not used it."""

from __future__ import annotations

import json
import multiprocessing
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.python.elastic_host_programs"])


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], directory: pathlib.Path):
    with (directory / "printed").open("w") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    (directory / "returned").write_text(json.dumps(function(*arguments)))


def call(function: Callable[..., Any], *arguments: Any, seconds: float = 300) -> Any:
    """Returns the function's result, a value for JSON.

    Raises an error, with the output of the process, if it fails or exceeds `seconds`.
    """
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        printed = directory / "printed"
        printed.touch()
        process = CONTEXT.Process(target=_call, args=(function, arguments, directory))
        process.start()
        process.join(seconds)
        ended = process.exitcode
        process.kill()
        process.join()
        process.close()
        if ended != 0:
            said = printed.read_text(errors="replace")[-20000:]
            raise AssertionError(f"{function.__name__}: exit {ended}\n{said}")
        return json.loads((directory / "returned").read_text())
