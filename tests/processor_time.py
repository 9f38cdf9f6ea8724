"""Processor time of tests: `TENSORBOW_TEST_TIMES=FILE pytest` writes it, by test file.

It is the user and system time of the process that runs a test, and of all processes that the test
has started and that have ended. Wall time says less: tests of hosts wait, and machines are shared.
`tests/processor_seconds.txt` is such a file. Test files start in its order, the longest first.
"""

from __future__ import annotations

import collections
import multiprocessing.forkserver
import os
import pathlib

import pytest

from tests.python import warm_python

FILE = os.environ.get("TENSORBOW_TEST_TIMES")
RECORDED = pathlib.Path(__file__).with_name("processor_seconds.txt")
_PROPERTY = "processor seconds"
_TICKS = os.sysconf("SC_CLK_TCK")
_SHOWN = 40


def recorded() -> dict[str, float]:
    """Returns the seconds of each test file in `tests/processor_seconds.txt`."""
    lines = RECORDED.read_text().splitlines() if RECORDED.exists() else []
    return {file: float(seconds) for seconds, file in map(str.split, lines)}


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


class Recorder:
    """Measures tests where they run, and writes the file where results are collected."""

    def __init__(self) -> None:
        self._by_test: collections.Counter[str] = collections.Counter()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self._start = _seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if call.when == "teardown":
            report.user_properties.append((_PROPERTY, _seconds() - self._start))
        return report

    def pytest_runtest_logreport(self, report):
        self._by_test[report.nodeid] += dict(report.user_properties).get(_PROPERTY, 0)

    def pytest_terminal_summary(self, terminalreporter, config):
        if hasattr(config, "workerinput"):
            return
        by_file: collections.Counter[str] = collections.Counter()
        for test, seconds in self._by_test.items():
            by_file[test.split("::")[0]] += seconds
        lines = [f"{seconds:.1f} {file}\n" for file, seconds in by_file.most_common()]
        pathlib.Path(FILE).write_text("".join(lines))
        terminalreporter.section(f"processor time: {by_file.total():.0f} s")
        for test, seconds in self._by_test.most_common(_SHOWN):
            terminalreporter.line(f"{seconds:8.2f} s {test}")
