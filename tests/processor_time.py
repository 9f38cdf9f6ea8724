"""A table of processor time by test file: `TENSORBOW_TEST_TIMES=FILE pytest`.

The time is user and system time of the process that runs the test and of all processes that it
has started and that have ended. Wall time says less: tests of hosts wait, and machines are shared.
"""

from __future__ import annotations

import collections
import multiprocessing.forkserver
import os
import pathlib

import pytest

from tests.python import warm_python

FILE = os.environ.get("TENSORBOW_TEST_TIMES")
_NAME = "processor_seconds"
_TICKS = os.sysconf("SC_CLK_TCK")


def _seconds() -> float:
    """Returns the processor time of this process and its children so far."""
    total = sum(os.times()[:4])
    forks = multiprocessing.forkserver._forkserver._forkserver_pid
    for server in filter(None, (forks, warm_python.server)):
        try:
            stat = pathlib.Path(f"/proc/{server}/stat").read_text()
        except FileNotFoundError:
            continue
        total += sum(map(int, stat.rpartition(")")[2].split()[11:15])) / _TICKS
    return total


class ProcessorTime:
    """Measures each test where it runs, and writes the table where results are collected."""

    def __init__(self) -> None:
        self._of_tests: collections.Counter[str] = collections.Counter()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self._start = _seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when == "teardown":
            report.user_properties.append((_NAME, _seconds() - self._start))
        return report

    def pytest_runtest_logreport(self, report):
        self._of_tests[report.nodeid] += sum(
            value for name, value in report.user_properties if name == _NAME
        )

    def pytest_terminal_summary(self, config):
        if hasattr(config, "workerinput"):
            return
        lines = [f"{seconds:8.2f} {test}\n" for test, seconds in self._of_tests.most_common()]
        pathlib.Path(FILE).write_text("".join(lines))
