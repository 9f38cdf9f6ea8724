"""Python programs that start in copies of a process that has imported TensorFlow.

Importing TensorFlow and Keras's modules takes several seconds, most of the time of a short
program. A server imports them once. `executable()` replaces Python: it makes a copy of the
server execute a program, with the given arguments, environment, files, directory and cores.
Signals and the exit status are passed on.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import socket
import stat
import subprocess
import sys

from tests.python.warm_python_client import short

HERE = pathlib.Path(__file__).parent
server: int | None = None  # the process started by this one, for tests/processor_time.py
CLIENT = """#!/bin/sh
exec '{python}' -I -S '{client}' '{address}' '{python}' "$0" "$@"
"""


def executable(directory: pathlib.Path, lives_with: int) -> str:
    """Returns the path of the executable.

    Args:
        directory: of the server; processes that use the same one share it.
        lives_with: the process with which the server ends.
    """
    directory.mkdir(exist_ok=True)
    path, address = directory / "python", directory / "socket"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            # A client that connects before the server is ready waits in the listener's queue.
            with socket.socket(socket.AF_UNIX) as listener, (directory / "log").open("w") as log:
                listener.bind(short(str(address)))
                listener.listen(64)
                numbers = str(listener.fileno()), str(lives_with)
                global server
                server = subprocess.Popen(
                    [sys.executable, HERE / "warm_python_server.py", *numbers],
                    pass_fds=[listener.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=HERE.parents[1],
                    env=os.environ | {"PYTHONPATH": str(HERE.parents[1])},
                ).pid
            client = HERE / "warm_python_client.py"
            text = CLIENT.format(python=sys.executable, client=client, address=address)
            path.write_text(text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)
