"""The collection of tests, and their division among pytest-xdist's workers."""

import gc
import pathlib

import pytest
from xdist.scheduler import LoadFileScheduling

from tests import processor_time

# Their tests start several processes, and wait for them most of the time.
_OF_HOSTS = ("hosts_", "cluster_", "launch_")


class _ByFile(LoadFileScheduling):
    """Keeps a file's tests together, which share their setup; tests of hosts run one at a time."""

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return "hosts" if pathlib.PurePath(file).name.startswith(_OF_HOSTS) else file


def pytest_configure(config):
    if processor_time.FILE:
        config.pluginmanager.register(processor_time.ProcessorTime())


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Freezes imported objects, which garbage collections then skip."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return _ByFile(config, log)
