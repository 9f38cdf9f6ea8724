"""Sessions whose learners compute on emulated accelerators: everything but the GPU."""

from __future__ import annotations

import pathlib

import pytest

from tests.python import own_process
from tests.python.accelerator_cases import CASES, execute
from tests.python.native_library import compile_library


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return compile_library("emulated_accelerator.cc", tmp_path_factory.mktemp("emulator"))


@pytest.mark.parametrize("case", CASES)
def test_accelerator(case: str, emulator: pathlib.Path) -> None:
    own_process.call(execute, case, str(emulator))
