"""The platform tag of a wheel, and the TensorFlow that a build is for."""

import email
import importlib
import pathlib
import subprocess
import sys
import zipfile

import pytest
import tensorflow as tf

import tensorbow

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tools():
    """Imports a module of tools/."""
    sys.path.append(str(ROOT / "tools"))
    yield importlib.import_module
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def install(tmp_path):
    """Pretends that a distribution is installed in a folder; returns the folder."""

    def pretend(name, version, folder="site-packages"):
        directory = tmp_path / folder
        metadata = directory / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return str(directory)

    return pretend


def test_a_build_is_for_the_tensorflow_of_the_environment(tools, install):
    installed = tools("installed_tensorflow")
    directory = install("tensorflow-cpu", "2.20.0")
    found = installed.find([[], [directory]])
    assert found == ("tensorflow-cpu", "2.20.0", directory)
    assert installed.needed_to_build(found) == []
    assert installed.dependencies(found) == ["tensorflow-cpu==2.20.*", "numpy", "absl-py"]
    assert installed.version_for("0.1.0", found) == "0.1.0+tf2.20"


def test_what_pip_fetched_for_the_build_goes_first(tools, install):
    installed = tools("installed_tensorflow")
    fetched = install("tensorflow", "2.21.0", "fetched")
    found = installed.find([[fetched], [install("tensorflow", "2.18.1")]])
    assert found == ("tensorflow", "2.21.0", fetched)


@pytest.mark.parametrize("version", [None, "2.18.1", "2.22.0"])
def test_without_a_tensorflow_to_build_for_pip_fetches_the_newest(version, tools, install):
    installed = tools("installed_tensorflow")
    path = [] if version is None else [install("tensorflow", version)]
    found = installed.find([path])
    assert installed.needed_to_build(found) == ["tensorflow==2.21.*"]
    assert installed.dependencies(found)[0] == "tensorflow>=2.19,<2.22"
    got = "none" if version is None else f"TensorFlow {version} in {path[0]}"
    assert f"found {got}, wanted tensorflow>=2.19,<2.22. Fix:" in installed.refusal(found)


READELF = """
Version needs section '.gnu.version_r' contains 2 entries:
  0x0000: Version: 1  File: libstdc++.so.6  Cnt: 2
  0x0010:   Name: CXXABI_1.3.5  Flags: none  Version: 11
  0x0020:   Name: {libstdc}  Flags: none  Version: 6
  0x0060: Version: 1  File: libc.so.6  Cnt: 2
  0x0070:   Name: {libc}  Flags: none  Version: 9
  0x0080:   Name: GLIBC_2.2.5  Flags: none  Version: 3
"""


@pytest.mark.parametrize(
    ("libc", "libstdc", "glibc"),
    [
        ("GLIBC_2.14", "GLIBCXX_3.4.19", (2, 17)),
        ("GLIBC_2.34", "GLIBCXX_3.4.19", (2, 34)),
        ("GLIBC_2.14", "GLIBCXX_3.4.29", (2, 34)),
        ("GLIBC_2.34", "GLIBCXX_3.4.30", (2, 35)),
        ("GLIBC_2.36", "GLIBCXX_3.4.30", (2, 36)),
    ],
)
def test_a_wheel_takes_the_glibc_that_its_symbols_need(libc, libstdc, glibc, tools):
    build_wheel = tools("build_wheel")
    newest = build_wheel.symbol_versions(READELF.format(libc=libc, libstdc=libstdc))
    assert newest["CXXABI"] == (1, 3, 5)
    assert build_wheel.glibc_needed(newest) == glibc


def test_symbols_newer_than_any_policy_are_refused(tools):
    build_wheel = tools("build_wheel")
    with pytest.raises(SystemExit, match="No manylinux policy"):
        build_wheel.glibc_needed({"GLIBCXX": (3, 4, 99)})


def test_tensorflow_stays_outside_of_a_wheel(tools):
    needed = " 0x01 (NEEDED)  Shared library: [{}]\n"
    names = ["libtensorflow_framework.so.2", "libtensorbow.so", "libc.so.6", "libfoo.so.1"]
    text = "".join(map(needed.format, names))
    assert tools("build_wheel").foreign_libraries(text) == ["libfoo.so.1"]


@pytest.fixture(scope="module")
def wheel(tools, tmp_path_factory):
    """Builds a wheel of the package with the existing runtime, which nothing compiles."""
    directory = tmp_path_factory.mktemp("wheel")
    for name in ("setup.py", "pyproject.toml", "LICENSE", "README.md", "tensorbow", "tools"):
        (directory / name).symlink_to(ROOT / name)
    program = (
        "import sys; sys.path.insert(0, 'tools')\n"
        "import build_backend\n"
        "build_backend.build_wheel('.')\n"
    )
    cmake = directory / "bin" / "cmake"
    cmake.parent.mkdir()
    cmake.write_text("#!/bin/sh\n")
    cmake.chmod(0o755)
    process = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env={"PATH": f"{cmake.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    (path,) = directory.glob("*.whl")
    return path


def test_metadata_say_which_tensorflow_a_wheel_is_for(wheel):
    release = ".".join(tf.__version__.split(".")[:2])
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
        files = set(archive.namelist())
    assert metadata["Version"] == f"{tensorbow.__version__}+tf{release}"
    needed = metadata.get_all("Requires-Dist")
    assert any(n.startswith("tensorflow") and n.endswith(f"=={release}.*") for n in needed), needed
    assert {"tensorbow/py.typed", "tensorbow/_native.pyi"} <= files
    assert {str(p.relative_to(ROOT)) for p in (ROOT / "tensorbow").rglob("*.py")} <= files
    assert metadata["License-Expression"] == "Apache-2.0"
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in files)
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{tag}-{tag}-" in wheel.name
