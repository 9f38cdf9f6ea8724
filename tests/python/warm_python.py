"""Python programs that start in copies of a process that has imported TensorFlow.

What this and the modules of Keras take to be imported, several seconds, is most of what a
short program takes. A server imports them once; in place of Python, `executable()` has a copy
of the server execute a program, with the arguments, environment, files, directory and cores
that it is given. Signals and the exit status are passed on.
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
CLIENT = """#!/bin/sh
exec '{python}' -I -S '{client}' '{address}' '{python}' "$0" "$@"
"""


def executable(directory: pathlib.Path, lives_with: int) -> str:
    """The path of what executes Python programs so.

    Args:
      directory: of the server, which those who share it name.
      lives_with: the process with which the server ends.
    """
    directory.mkdir(exist_ok=True)
    path, address = directory / "python", directory / "socket"
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            # Who connects before the server is ready waits in the listener's queue.
            with socket.socket(socket.AF_UNIX) as listener, (directory / "log").open("w") as log:
                listener.bind(short(str(address)))
                listener.listen(64)
                numbers = str(listener.fileno()), str(lives_with)
                subprocess.Popen(
                    [sys.executable, HERE / "warm_python_server.py", *numbers],
                    pass_fds=[listener.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=HERE.parents[1],
                    env=os.environ | {"PYTHONPATH": str(HERE.parents[1])},
                )
            client = HERE / "warm_python_client.py"
            text = CLIENT.format(python=sys.executable, client=client, address=address)
            path.write_text(text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)
