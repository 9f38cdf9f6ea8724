"""Several hosts of a cluster on one machine: `tensorbow launch`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

_POLL_SECONDS = 0.05
_GRACE_SECONDS = 5.0  # for a host to end when it is asked to


def add_parser(commands: Any) -> None:
    """Adds the command and its arguments."""
    launch = commands.add_parser(
        "launch", help="run a program on several hosts, all of them on this machine"
    )
    launch.set_defaults(parser=launch)
    launch.add_argument("--hosts", type=int, required=True, help="how many processes")
    launch.add_argument(
        "--max-restarts",
        type=int,
        default=0,
        help="when a host fails, start all of them again, at most so often; the program goes "
        "on from what it has saved",
    )
    launch.add_argument("script", type=pathlib.Path, help="a program with Options(cluster='auto')")
    launch.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="of the script: all that follows it"
    )


def free_addresses(count: int) -> list[str]:
    """Different addresses of this machine, "127.0.0.1:port", at which nobody listens yet."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]


def _shares(cores: Sequence[int], hosts: int) -> list[set[int]]:
    """The cores of each host: its part of them, or all if there are too few."""
    if len(cores) < hosts:
        return [set(cores)] * hosts
    return [set(cores[k::hosts]) for k in range(hosts)]


def _start(script: pathlib.Path, arguments: Sequence[str], hosts: int) -> list[subprocess.Popen]:
    addresses = free_addresses(hosts)
    all_cores = sorted(os.sched_getaffinity(0))
    processes = []
    for index, cores in enumerate(_shares(all_cores, hosts)):
        described = {
            "cluster": {"worker": addresses},
            "task": {"type": "worker", "index": index},
        }
        os.sched_setaffinity(0, cores)  # which the process inherits
        processes.append(
            subprocess.Popen(
                [sys.executable, "-u", str(script), *arguments],
                env=os.environ | {"TF_CONFIG": json.dumps(described)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        )
    os.sched_setaffinity(0, all_cores)
    return processes


def _copy_output(host: int, process: subprocess.Popen) -> threading.Thread:
    """Prints what a host prints, line by line, with its number in front."""

    def copy() -> None:
        for line in process.stdout or ():
            print(f"[host {host}] {line}", end="" if line.endswith("\n") else "\n", flush=True)

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


def _end(processes: Sequence[subprocess.Popen]) -> None:
    """Asks what is left of them to end, and kills what does not."""
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
    """SIGTERM is an interruption, as Ctrl-C is: the hosts end with this process."""

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
    processes = _start(script, arguments, hosts)
    outputs = [_copy_output(host, process) for host, process in enumerate(processes)]
    failed: tuple[int, str] = (0, "")
    try:
        while any(process.poll() is None for process in processes) and not failed[0]:
            time.sleep(_POLL_SECONDS)
            for host, process in enumerate(processes):
                code = process.poll()
                if code:
                    how = f"exit status {code}" if code > 0 else signal.Signals(-code).name
                    failed = (code if code > 0 else 128 - code, f"host {host}: {how}")
                    break
    finally:
        _end(processes)
        for output in outputs:
            output.join(_GRACE_SECONDS)
    return failed


def run(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, the first failing host's.

    The processes share this machine's cores. When one fails the others are ended.
    """
    if arguments.hosts < 1:
        parser.error(f"--hosts must be at least 1, got {arguments.hosts}")
    if arguments.max_restarts < 0:
        parser.error(f"--max-restarts must be at least 0, got {arguments.max_restarts}")
    if not arguments.script.is_file():
        parser.error(f"there is no file {arguments.script}")
    status = 0
    with _asked_to_end():
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
