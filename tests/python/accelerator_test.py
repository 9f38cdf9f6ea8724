"""Sessions whose learners compute on emulated accelerators: everything but the GPU."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
import tensorflow as tf

import tensorbow
from tests.python import own_process
from tests.python.accelerator_cases import CASES, execute

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    library = tmp_path_factory.mktemp("emulator") / "libemulated_accelerator.so"
    package = pathlib.Path(tensorbow.__file__).parent
    includes = [f"-isystem{flag[2:]}" for flag in tf.sysconfig.get_compile_flags()[:1]]
    subprocess.run(
        [
            *("g++", "-std=c++17", "-O1", "-DNDEBUG", "-fPIC", "-shared", f"-I{ROOT}"),
            *includes,
            *tf.sysconfig.get_compile_flags()[1:],
            "-std=c++17",
            str(ROOT / "tests" / "cc" / "emulated_accelerator.cc"),
            *("-o", str(library), f"-L{package}", "-l:libtensorbow.so"),
            *tf.sysconfig.get_link_flags(),
            f"-Wl,-rpath,{package}",
        ],
        check=True,
    )
    return library


@pytest.mark.parametrize("case", CASES)
def test_accelerator(case: str, emulator: pathlib.Path) -> None:
    own_process.call(execute, case, str(emulator))
