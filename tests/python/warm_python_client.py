"""Replaces Python: warm_python_client.py ADDRESS PYTHON EXECUTABLE ARGUMENTS…

Makes the server at ADDRESS execute a program, and ends as it ends. If the environment that Python
and its modules read at their start differs from the server's, PYTHON itself executes it.
"""

import json
import os
import signal
import socket
import sys

# The variables read when modules are imported, except those for the logs.
READ_AT_START = "DNNL_ GLIBC_ KERAS_ KMP_ LD_ MALLOC_ OMP_ ONEDNN_ OPENBLAS_ PYTHON TF_ XLA_"
READ_LATER = ("TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL", "PYTHONPATH")
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
LIMIT_SECONDS = 120  # for the server to be ready


def read_at_start(environment):
    """Returns the part of the environment that a running process cannot change any more."""
    prefixes = tuple(READ_AT_START.split())
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(prefixes) and name not in READ_LATER
    }


def short(address):
    """Returns the same path, short enough for a socket (108 bytes)."""
    folder, name = os.path.split(address)
    return f"/proc/self/fd/{os.open(folder, os.O_PATH)}/{name}"


def main():
    address, python, executable, *arguments = sys.argv[1:]
    server = socket.socket(socket.AF_UNIX)
    server.connect(short(address))
    server.settimeout(LIMIT_SECONDS)
    with server.makefile("r") as answers:
        environment = answers.readline()
        if not environment:
            sys.exit(f"The server of {address} has ended; its log lies beside that.")
        if json.loads(environment) != read_at_start(os.environ):
            os.execv(python, [python, *arguments])
        server.settimeout(None)
        request = {
            "executable": executable,
            "arguments": arguments,
            "directory": os.getcwd(),
            "environment": dict(os.environ),
            "cores": list(os.sched_getaffinity(0)),
        }
        encoded = json.dumps(request).encode()
        socket.send_fds(server, [len(encoded).to_bytes(8, "little")], [0, 1, 2])
        server.sendall(encoded)
        for number in PASSED_ON:
            signal.signal(number, lambda number, frame: server.send(bytes([number])))
        answer = answers.readline()
    code = json.loads(answer) if answer else -signal.SIGKILL
    if code < 0:
        if -code in PASSED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
