"""How tests are collected, and shared among pytest-xdist's workers."""

import gc
import pathlib

import pytest
from xdist.scheduler import LoadFileScheduling

# Their tests start several processes, and wait for them most of the time.
_OF_HOSTS = ("hosts_", "cluster_", "launch_")


class _ByFile(LoadFileScheduling):
    """A file's tests share what they set up; those of hosts are executed one at a time."""

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return "hosts" if pathlib.PurePath(file).name.startswith(_OF_HOSTS) else file


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: garbage collections pass it over."""
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
