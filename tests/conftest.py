"""The collection of tests, and their division among pytest-xdist's workers."""

import gc
import pathlib

import pytest
from xdist.scheduler import LoadFileScheduling

from tests import processor_time

# Their tests start several processes, and wait for them most of the time.
_OF_HOSTS = ("hosts_", "cluster_", "launch_")


def _is_of_hosts(file):
    return pathlib.PurePath(file).name.startswith(_OF_HOSTS)


class _ByFile(LoadFileScheduling):
    """Keeps a file's tests together, which share their setup; tests of hosts run one at a time."""

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return "hosts" if _is_of_hosts(file) else file


def pytest_configure(config):
    config.option.loadscopereorder = False  # pytest_collection_modifyitems has the order
    if processor_time.FILE:
        config.pluginmanager.register(processor_time.Recorder())


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


def pytest_collection_modifyitems(items):
    """Orders files for the workers: hosts first, which wait, then the longest."""
    seconds = processor_time.recorded()

    def place(item):
        file = item.nodeid.split("::")[0]
        return not _is_of_hosts(file), -seconds.get(file, 0)

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return _ByFile(config, log)
