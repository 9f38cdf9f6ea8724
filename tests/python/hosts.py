"""Several hosts of one cluster on this machine: a process for each, which runs a program.

A program is a function of `host_programs.py`, or "module.function" of another one. It is given its
rank, the addresses and arguments, and returns a value for JSON. A process that does not end in time
is killed.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import signal
import tempfile
import time
import traceback
from typing import Any

from tensorbow.cli.launch import free_addresses
from tests.python.own_process import CONTEXT

LIMIT_SECONDS = 120


def _run(program: str, result: pathlib.Path, rank: int, addresses: list[str], *arguments: Any):
    from tests.python import elastic_host_programs, host_programs

    host_programs.MARK = result.with_suffix(".mark")
    try:
        module, _, name = program.rpartition(".")
        if not module and hasattr(elastic_host_programs, name):
            module = "elastic_host_programs"
        programs = importlib.import_module(f"tests.python.{module or 'host_programs'}")
        returned = getattr(programs, name)(rank, addresses, *arguments)
        result.write_text(json.dumps({"returned": returned}))
    except BaseException:
        result.write_text(json.dumps({"error": traceback.format_exc()}))
        raise


class Hosts:
    """Processes that run `program(rank, addresses, *arguments)`, as a context manager."""

    def __init__(self, count: int, program: str, *arguments: Any) -> None:
        self.addresses = free_addresses(count)
        self._directory = tempfile.TemporaryDirectory()
        self._results = [pathlib.Path(self._directory.name) / str(k) for k in range(count)]
        self.processes = [
            CONTEXT.Process(
                target=_run,
                args=(program, self._results[rank], rank, self.addresses, *arguments),
            )
            for rank in range(count)
        ]
        for process in self.processes:
            process.start()

    @property
    def directory(self) -> pathlib.Path:
        """The folder of marks and other files of the programs."""
        return pathlib.Path(self._directory.name)

    def start_again(self, rank: int, program: str, *arguments: Any) -> None:
        """Starts a host that has ended once more, perhaps with another program."""
        self.processes[rank].join(LIMIT_SECONDS)
        self._results[rank].unlink(missing_ok=True)
        self.processes[rank].close()
        self.processes[rank] = CONTEXT.Process(
            target=_run, args=(program, self._results[rank], rank, self.addresses, *arguments)
        )
        self.processes[rank].start()

    def await_file(self, name: str) -> None:
        """Waits until a program has made this file in `directory`."""
        self._await(self.directory / name, name)

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *unused: object) -> None:
        for process in self.processes:
            process.kill()
            process.join()
            process.close()
        self._directory.cleanup()

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Sends a signal to one host."""
        os.kill(self.processes[rank].pid, number)

    def result(self, rank: int) -> Any:
        """Returns the result of the host's program; an error if it failed or takes too long."""
        self.processes[rank].join(LIMIT_SECONDS)
        assert self.processes[rank].exitcode is not None, f"host {rank} takes too long"
        assert self._results[rank].exists(), f"host {rank}: exit {self.processes[rank].exitcode}"
        result = json.loads(self._results[rank].read_text())
        assert "error" not in result, f"host {rank}:\n{result['error']}"
        return result["returned"]

    def results(self) -> list[Any]:
        """Returns the results of all hosts."""
        return [self.result(rank) for rank in range(len(self.processes))]

    def await_mark(self, rank: int) -> None:
        """Waits until the host's program calls `mark()`."""
        self._await(self._results[rank].with_suffix(".mark"), f"host {rank}", rank)

    def _await(self, file: pathlib.Path, name: str, rank: int | None = None) -> None:
        """Waits for the file; `rank`: the host that must be alive until then."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not file.exists():
            assert rank is None or self.processes[rank].is_alive(), f"{name} has ended"
            assert time.monotonic() < deadline, f"{name} takes too long"
            time.sleep(0.01)
