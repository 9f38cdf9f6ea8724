"""Libraries of tests, linked with the runtime."""

from __future__ import annotations

import pathlib
import subprocess

import tensorflow as tf

import tensorbow

ROOT = pathlib.Path(__file__).parents[2]


def compile_library(source: str, folder: pathlib.Path) -> pathlib.Path:
    """Compiles a file of tests/cc into a library in `folder`, for `tf.load_op_library`."""
    library = folder / f"lib{pathlib.Path(source).stem}.so"
    package = pathlib.Path(tensorbow.__file__).parent
    includes = [f"-isystem{flag[2:]}" for flag in tf.sysconfig.get_compile_flags()[:1]]
    subprocess.run(
        [
            *("g++", "-std=c++17", "-O1", "-DNDEBUG", "-fPIC", "-shared", f"-I{ROOT}"),
            *includes,
            *tf.sysconfig.get_compile_flags()[1:],
            "-std=c++17",
            str(ROOT / "tests" / "cc" / source),
            *("-o", str(library), f"-L{package}", "-l:libtensorbow.so"),
            *tf.sysconfig.get_link_flags(),
            f"-Wl,-rpath,{package}",
        ],
        check=True,
    )
    return library
