"""A wrong TensorFlow, or a runtime that does not load, is explained."""

import pathlib
import shutil
import subprocess
import sys

import pytest

import tensorbow
from tensorbow import _loader


@pytest.mark.parametrize("version", ["2.20.0", "2.22.1", "3.0.0", "2.22.0-dev20260101"])
def test_other_tensorflow_versions_are_named(version):
    with pytest.raises(ImportError) as error:
        _loader.check_tensorflow_version(version)
    text = str(error.value)
    assert f"found TensorFlow {version}" in text
    assert ">=2.21,<2.22" in text
    assert "pip install" in text


def test_wanted_versions_are_fine():
    for version in ("2.21.0", "2.21.3", "2.21.0-rc1"):
        _loader.check_tensorflow_version(version)


def test_runtime_built_for_another_tensorflow_is_named():
    with pytest.raises(
        ImportError, match=r"built for TensorFlow 2\.21\.1, but TensorFlow 2\.21\.0"
    ):
        _loader.check_built_for("2.21.1", "2.21.0")


def import_copy(directory: pathlib.Path) -> str:
    """Imports the package from `directory` in a fresh process; what it wrote."""
    process = subprocess.run(
        [sys.executable, "-c", "import tensorbow"],
        cwd=directory,
        env={"PYTHONPATH": str(directory), "TF_CPP_MIN_LOG_LEVEL": "3", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode != 0
    return process.stderr


@pytest.fixture
def copy(tmp_path):
    source = pathlib.Path(tensorbow.__file__).parent
    shutil.copytree(source, tmp_path / "tensorbow")
    return tmp_path


def test_missing_runtime_is_explained(copy):
    (copy / "tensorbow" / "libtensorbow.so").unlink()
    text = import_copy(copy)
    assert "ImportError: TensorBow cannot start inside TensorFlow 2.21" in text
    assert "native runtime is not in" in text and "Fix:" in text


def test_broken_runtime_is_explained(copy):
    (copy / "tensorbow" / "libtensorbow.so").write_bytes(b"not a library")
    text = import_copy(copy)
    assert "ImportError: TensorBow cannot start inside TensorFlow 2.21" in text
    assert "does not load" in text and "Fix:" in text
