"""The table of obstacles to recording tasks is that of the graphs that learners have.

`TENSORBOW_FUZZ=1` compares all rows of the table.
"""

from __future__ import annotations

import pathlib

import pytest

from tests import fuzz
from tests.programs import _harness
from tests.python import own_process, recording_census
from tests.python.native_library import compile_library


@pytest.fixture(scope="module")
def idle_gpu(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return compile_library("idle_gpu.cc", tmp_path_factory.mktemp("idle"))


@pytest.mark.parametrize(
    "name", recording_census.names() if fuzz.FUZZ else recording_census.selection()
)
def test_obstacles_are_those_of_the_table(name: str, idle_gpu: pathlib.Path) -> None:
    kind, program = name.split(": ")
    if kind == "program" and (missing := _harness.missing_packages(program)):
        pytest.skip(f"{', '.join(missing)} not installed (tools/requirements.txt)")
    found = own_process.call(recording_census.of, name, str(idle_gpu))
    assert found == recording_census.rows()[name]


def test_table_has_exactly_the_programs() -> None:
    assert list(recording_census.rows()) == recording_census.names()
