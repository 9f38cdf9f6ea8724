"""Executes Python programs in copies of itself: warm_python_server.py LISTENER PID

LISTENER is the number of a socket's file. Ends when the process PID has ended. See
warm_python.py.
"""

from __future__ import annotations

import gc

gc.disable()  # while it imports

import contextlib
import json
import os
import pathlib
import runpy
import select
import signal
import socket
import sys
import types
from typing import Any

import keras  # noqa: F401 - programs find it imported
import numpy as np
import tensorflow as tf  # noqa: F401

import tensorbow  # noqa: F401
from tests.python.warm_python_client import read_at_start


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """Receives a program to execute, if any; its files replace this process's."""
    length, files, _, _ = socket.recv_fds(connection, 8, 3)
    if not length:  # Python itself executes it
        return None
    encoded = b""
    while len(encoded) < int.from_bytes(length, "little"):
        part = connection.recv(1 << 20)
        if not part:  # the process that started it has been killed
            return None
        encoded += part
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    return json.loads(encoded)


def attend(connection: socket.socket, program: int) -> None:
    """Passes signals on to the program, and its exit status back."""
    ended = os.pidfd_open(program)
    while True:
        ready, _, _ = select.select([ended, connection], [], [])
        if ended in ready:
            _, status = os.waitpid(program, 0)
            connection.sendall(json.dumps(os.waitstatus_to_exitcode(status)).encode() + b"\n")
            return
        numbers = connection.recv(64)
        if not numbers:  # the process that started it has been killed
            os.kill(program, signal.SIGKILL)
            os.waitpid(program, 0)
            return
        for number in numbers:
            os.kill(program, number)


def reap(number: int, frame: types.FrameType | None) -> None:
    """Takes the exit status of every copy that has ended, so that its time counts as spent."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(listener: socket.socket, lives_with: int) -> dict[str, Any] | None:
    """Returns in copies, with the program for each, and at the end with None."""
    environment = read_at_start(os.environ)
    until = os.pidfd_open(lives_with)
    signal.signal(signal.SIGCHLD, reap)
    while True:
        ready, _, _ = select.select([listener, until], [], [])
        if until in ready:
            return None
        connection, _ = listener.accept()
        if os.fork() != 0:
            connection.close()
            continue
        listener.close()
        os.close(until)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with connection:
            connection.sendall(json.dumps(environment).encode() + b"\n")
            request = receive(connection)
            if request is None:
                os._exit(0)
            program = os.fork()
            if program == 0:
                return request
            for file in range(3):
                os.close(file)
            attend(connection, program)
            os._exit(0)


def execute(request: dict[str, Any]) -> None:
    """Executes the program as `python ARGUMENTS…` does."""
    gc.enable()
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.sched_setaffinity(0, request["cores"])
    np.random.seed()  # noqa: NPY002 - not what other copies have
    sys.executable = request["executable"]
    arguments = request["arguments"]
    if arguments[0] == "-u":
        sys.stdout.reconfigure(write_through=True)
        arguments = arguments[1:]
    own = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    del sys.path[0]
    sys.path[:] = [*own, *(p for p in sys.path if p not in own)]
    if arguments[0] == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv[:] = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    main = types.ModuleType("__main__")
    if arguments[0] == "-c":
        sys.path.insert(0, "")
        name, text, sys.argv[:] = "<string>", arguments[1], ["-c", *arguments[2:]]
    else:
        name, sys.argv[:] = arguments[0], arguments
        sys.path.insert(0, str(pathlib.Path(name).resolve().parent))
        main.__file__ = os.path.abspath(name)
        text = pathlib.Path(name).read_text()
    sys.modules["__main__"] = main
    exec(compile(text, name, "exec"), main.__dict__)


if __name__ == "__main__":
    gc.freeze()
    found = serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    if found is not None:
        execute(found)
