"""`tensorbow launch`: several hosts of a cluster on one machine."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tensorbow._runtime import loader
from tensorbow._runtime.messages import count

_POLL_SECONDS = 0.05
# Lines that TensorFlow logs while it is imported, at any TF_CPP_MIN_LOG_LEVEL.
_LOG = re.compile(
    r"WARNING: All log messages before absl::InitializeLog|"
    r"I\d{4} [\d:.]+ +\d+ \S+:\d+\]|To enable the following instructions: "
)
_GRACE_SECONDS = 5.0  # for a host to end when it is asked to


def add_parser(commands: Any) -> None:
    """Adds the command and its arguments."""
    launch = commands.add_parser(
        "launch", help="run a program on several hosts, all of them on this machine"
    )
    launch.set_defaults(parser=launch)
    launch.add_argument("--hosts", type=int, help="how many processes; stands before the script")
    launch.add_argument(
        "--max-restarts",
        type=int,
        default=0,
        help="when a host fails, start all of them again, at most so often; the program goes "
        "on from what it has saved",
    )
    launch.add_argument(
        "--elastic",
        action="store_true",
        help="a host that fails does not end the others, and --max-restarts starts it alone: for "
        "programs with Cluster(elastic=True)",
    )
    launch.add_argument("script", type=pathlib.Path, help="a program with Options(cluster='auto')")
    rest = launch.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="of the script: all that follows it, or nothing"
    )
    rest.required = False


def free_addresses(count: int) -> list[str]:
    """Returns different addresses of this machine, "127.0.0.1:port", that are free."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]


def _shares(cores: Sequence[int], hosts: int) -> list[set[int]]:
    """Returns the cores of each host: its part of them, or all if there are too few."""
    if len(cores) < hosts:
        return [set(cores)] * hosts
    return [set(cores[k::hosts]) for k in range(hosts)]


class _Hosts:
    """The processes of hosts, and the threads that print their output."""

    def __init__(self, script: pathlib.Path, arguments: Sequence[str], hosts: int) -> None:
        self._command = [sys.executable, "-u", str(script), *arguments]
        self._addresses = free_addresses(hosts)
        self._outputs: list[threading.Thread] = []
        self.processes = [self._start(host) for host in range(hosts)]

    def _start(self, host: int) -> subprocess.Popen:
        described = {
            "cluster": {"worker": self._addresses},
            "task": {"type": "worker", "index": host},
        }
        all_cores = sorted(os.sched_getaffinity(0))
        # The process inherits them.
        os.sched_setaffinity(0, _shares(all_cores, len(self._addresses))[host])
        process = subprocess.Popen(
            self._command,
            env={"TF_CPP_MIN_LOG_LEVEL": "3"} | os.environ | {"TF_CONFIG": json.dumps(described)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        os.sched_setaffinity(0, all_cores)
        self._outputs.append(_copy_output(host, process))
        return process

    def start_again(self, host: int) -> None:
        """Starts a host again whose process has ended."""
        self.processes[host] = self._start(host)

    def end(self) -> None:
        """Asks all running hosts to end, and kills those that do not."""
        _end(self.processes)
        for output in self._outputs:
            output.join(_GRACE_SECONDS)


def _failure(host: int, code: int) -> tuple[int, str]:
    """Returns an exit status for that of a host's process, and a text."""
    how = f"exit status {code}" if code > 0 else signal.Signals(-code).name
    return code if code > 0 else 128 - code, f"host {host}: {how}"


def _copy_output(host: int, process: subprocess.Popen) -> threading.Thread:
    """Prints what a host prints, line by line, with its number in front.

    TensorFlow's log is left out unless the user wants it.
    """
    quiet = not loader.wants_log()

    def copy() -> None:
        for line in process.stdout or ():
            if quiet and _LOG.match(line):
                continue
            print(f"[host {host}] {line}", end="" if line.endswith("\n") else "\n", flush=True)

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def _end(processes: Sequence[subprocess.Popen]) -> None:
    """Asks all running processes to end, and kills those that do not."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _asked_to_end() -> Iterator[None]:
    """Turns SIGTERM into an interruption, as by Ctrl-C: the hosts end with this process."""

    def interrupt(*unused: object) -> None:
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _run_once(script: pathlib.Path, arguments: Sequence[str], hosts: int) -> tuple[int, str]:
    """Runs all hosts to their end or to the first failure.

    Returns:
      An exit status, 0 if no host has failed, and who has failed how.
    """
    running = _Hosts(script, arguments, hosts)
    failed: tuple[int, str] = (0, "")
    try:
        while any(process.poll() is None for process in running.processes) and not failed[0]:
            time.sleep(_POLL_SECONDS)
            for host, process in enumerate(running.processes):
                code = process.poll()
                if code:
                    failed = _failure(host, code)
                    break
    finally:
        running.end()
    return failed


def _run_elastic(
    script: pathlib.Path, arguments: Sequence[str], hosts: int, max_restarts: int
) -> int:
    """Runs all hosts to their ends. One that fails is started again, alone, unless another has
    ended well: training is over then.

    Returns:
      An exit status, 0 if a host has ended well, else the first failure's.
    """
    running = _Hosts(script, arguments, hosts)
    left, ended, first = max_restarts, dict[int, int](), 0
    try:
        while len(ended) < hosts:
            time.sleep(_POLL_SECONDS)
            for host, process in enumerate(running.processes):
                code = process.poll()
                if host in ended or code is None:
                    continue
                ended[host] = code
                if code == 0:
                    continue
                status, how = _failure(host, code)
                first = first or status
                again = ""
                if left > 0 and 0 not in ended.values():
                    left -= 1
                    del ended[host]
                    running.start_again(host)
                    again = f"; starting it again ({left} more)"
                print(f"tensorbow launch: {how}{again}", file=sys.stderr, flush=True)
    finally:
        running.end()
    return 0 if 0 in ended.values() else first


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, the first failing host's.

    The processes share this machine's cores. When one fails the others are ended, unless they are
    elastic.
    """
    if arguments.hosts is None:
        parser.error(f"--hosts is missing; wanted: tensorbow launch --hosts 2 {arguments.script}")
    if arguments.hosts < 1:
        parser.error(f"--hosts must be at least 1, got {arguments.hosts}")
    if arguments.max_restarts < 0:
        parser.error(f"--max-restarts must be at least 0, got {arguments.max_restarts}")
    if not arguments.script.is_file():
        parser.error(f"there is no file {arguments.script}")
    hosts = count(arguments.hosts, "host")
    print(f"tensorbow launch: {arguments.script} on {hosts}", file=sys.stderr, flush=True)
    status = 0
    with _asked_to_end():
        if arguments.elastic:
            try:
                return _run_elastic(
                    arguments.script, arguments.arguments, arguments.hosts, arguments.max_restarts
                )
            except KeyboardInterrupt:
                return 128 + signal.SIGINT
        for left in range(arguments.max_restarts, -1, -1):
            try:
                status, how = _run_once(arguments.script, arguments.arguments, arguments.hosts)
            except KeyboardInterrupt:
                return 128 + signal.SIGINT
            if status == 0:
                return 0
            again = f"; starting all again ({left} more)" if left else ""
            print(f"tensorbow launch: {how}{again}", file=sys.stderr, flush=True)
    return status
