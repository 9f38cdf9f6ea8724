"""BUILD (Bazel) and CMake's files list the same sources, and all sources there are."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]

# CMake variable → Bazel target with the same sources.
TARGETS = {
    "TENSORBOW_CORE_SOURCES": "tensorbow_core",
    "TENSORBOW_SOURCES": "libtensorbow.so",
    "TENSORBOW_NATIVE_SOURCES": "_native.so",
    "TENSORBOW_GPU_CORE_SOURCES": "tensorbow_gpu_core",
    "TENSORBOW_TEST_SOURCES": "tensorbow_core_test",
    "TENSORBOW_RUNTIME_TEST_SOURCES": "tensorbow_runtime_test",
}

# The variables of the GPU library, which Bazel does not build.
CMAKE_ONLY = {
    "TENSORBOW_CUDA_SOURCES",
    "TENSORBOW_CUDA_HOST_SOURCES",
    "TENSORBOW_GPU_SOURCES",
}

COMPILED_BY_TESTS = {"tests/cc/emulated_accelerator.cc", "tests/cc/idle_gpu.cc"}


def cmake_sources() -> dict[str, list[str]]:
    files = [ROOT / "CMakeLists.txt", ROOT / "cmake" / "gpu.cmake"]
    text = "".join(file.read_text() for file in files)
    lists = re.findall(r"set\((TENSORBOW_\w*SOURCES)\n([^)]*)\)", text)
    return {name: body.split() for name, body in lists}


def bazel_rules() -> dict[str, dict]:
    """Returns the arguments of every rule of BUILD, by target name."""
    rules: dict[str, dict] = {}

    def note(**arguments):
        if "name" in arguments:
            rules[arguments["name"]] = arguments

    class Rules(dict):
        def __missing__(self, name):
            return lambda *positional, **arguments: note(**arguments)

    environment = Rules(
        glob=lambda patterns, **_: sorted(
            str(p.relative_to(ROOT)) for pattern in patterns for p in ROOT.glob(pattern)
        )
    )
    exec((ROOT / "BUILD").read_text(), environment)
    return rules


def test_source_lists_are_equal():
    cmake, bazel = cmake_sources(), bazel_rules()
    assert set(cmake) == set(TARGETS) | CMAKE_ONLY
    for variable, target in TARGETS.items():
        compiled = sorted(s for s in bazel[target]["srcs"] if s.endswith(".cc"))
        assert compiled == sorted(cmake[variable]), target
    for variable, sources in cmake.items():
        assert sources == sorted(sources), f"{variable} is not in order"


def test_every_source_file_is_built():
    listed = {source for sources in cmake_sources().values() for source in sources}
    present = {
        str(path.relative_to(ROOT))
        for folder in ("cc", "tf_ops", "tests/cc")
        for path in (ROOT / folder).rglob("*.cc")
    }
    assert listed | COMPILED_BY_TESTS == present


def test_every_header_is_known_to_bazel():
    known = {
        header
        for rule in bazel_rules().values()
        for header in [*rule.get("hdrs", []), *rule.get("srcs", [])]
    }
    present = {str(p.relative_to(ROOT)) for p in (ROOT / "cc").rglob("*.h")}
    assert present <= known


def test_inner_folders_know_no_tensorflow():
    folders = (
        "activity",
        "arithmetic",
        "central_model",
        "scheduler",
        "support",
        "synchroniser",
        "tuner",
    )
    for folder in folders:
        inner = [p for p in (ROOT / "cc" / folder).rglob("*.*") if p.parent.name != "gpu"]
        for path in inner:
            includes = re.findall(r'#include "([^"]+)"', path.read_text())
            for include in includes:
                assert include.startswith(tuple(f"cc/{r}/" for r in folders)), (path, include)
    for path in (ROOT / "cc" / "support").iterdir():
        assert not re.findall(r'#include "cc/(?!support/)', path.read_text()), path


def test_cuda_files_know_no_tensorflow():
    cuda = {path for folder in ("cc", "tf_ops") for path in (ROOT / folder).rglob("*.cu.cc")}
    assert cuda
    for path in cuda:
        assert "tensorflow/" not in path.read_text(), path
