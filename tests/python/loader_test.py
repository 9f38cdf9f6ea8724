"""A wrong TensorFlow, or a runtime that does not load, is explained."""

import ast
import inspect
import os
import pathlib
import shutil
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

import tensorbow
from tensorbow import _native
from tensorbow._runtime import loader, releases

PACKAGE = pathlib.Path(tensorbow.__file__).parent


@pytest.mark.parametrize("version", ["2.18.1", "2.22.1", "3.0.0", "2.22.0-dev20260101"])
def test_other_tensorflow_versions_are_named(version):
    with pytest.raises(ImportError) as error:
        loader.check_tensorflow_version(version)
    text = str(error.value)
    assert f"found TensorFlow {version}" in text
    assert ">=2.19,<2.22" in text
    assert "pip install" in text


def test_wanted_versions_are_fine():
    for version in ("2.19.1", "2.20.0", "2.21.0", "2.21.3", "2.21.0-rc1"):
        loader.check_tensorflow_version(version)


def test_pip_is_told_the_release_that_the_runtime_is_for():
    assert releases.requirement("2.20.1") == "==2.20.*"
    assert releases.newest() == "2.21"


def test_runtime_built_for_another_release_is_named():
    with pytest.raises(ImportError) as error:
        loader.check_built_for("2.20.1", "2.21.0")
    text = str(error.value)
    assert "built for TensorFlow 2.20.1, but TensorFlow 2.21.0 is installed" in text
    assert "pip install 'tensorflow==2.20.*'" in text
    assert "wheel for TensorFlow 2.21" in text


def test_patch_releases_may_differ():
    loader.check_built_for("2.19.1", "2.19.0")
    loader.check_built_for("2.21.0", "2.21.2")


def test_the_runtime_says_what_it_was_built_for_without_being_loaded():
    assert loader.built_for(PACKAGE) == _native.tensorflow_version
    assert releases.release(_native.tensorflow_version) == releases.release(tf.__version__)


@pytest.mark.parametrize("tensorflow", ["2.19.1", "2.20.0", "2.21.0"])
@pytest.mark.parametrize("found", ["2.15.0", "3.4.1", "4.0.0"])
def test_another_keras_is_refused(found, tensorflow):
    wanted = releases.keras_wanted(tensorflow)
    with pytest.raises(ImportError, match=f"found Keras {found}, but wants Keras {wanted}"):
        loader.check_keras_version(found, tensorflow)


def test_this_keras_is_fine():
    loader.check_keras_version(keras.__version__, tf.__version__)


def import_copy(directory: pathlib.Path) -> str:
    """Imports the package from `directory` in a fresh process; returns its output."""
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
    shutil.copytree(PACKAGE, tmp_path / "tensorbow")
    return tmp_path


def test_a_broken_runtime_is_explained(copy):
    (copy / "tensorbow" / "libtensorbow.so").write_bytes(b"not a library")
    text = import_copy(copy)
    assert f"ImportError: TensorBow cannot start inside TensorFlow {tf.__version__}" in text
    assert "does not load" in text and "Fix:" in text


def test_a_runtime_for_another_release_is_not_loaded(copy):
    (module,) = (copy / "tensorbow").glob("_native*.so")
    module.write_bytes(b"TensorBow is built for TensorFlow 2.18.1\0")
    assert "was built for TensorFlow 2.18.1, but TensorFlow" in import_copy(copy)


@pytest.fixture
def checkout(tmp_path):
    """Copies the sources, without a native runtime."""
    folder = tmp_path / "checkout"
    ignore = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(PACKAGE, folder / "tensorbow", ignore=ignore)
    (folder / "setup.py").touch()
    return folder


@pytest.mark.parametrize("way", ["a program", "the command"])
def test_programs_started_in_a_checkout_use_the_installation(checkout, way):
    arguments = ["-m", "tensorbow", "--version"]
    if way == "a program":
        program = "import tensorbow, tensorbow.keras as k; print(tensorbow.Options, k.__file__)"
        arguments = ["-c", program]
    said = subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if way == "a program":
        assert str(PACKAGE / "keras") in said and "tensorbow.options.Options" in said
    else:
        assert said.startswith("tensorbow ")


def test_a_checkout_beside_no_installation_was_not_built(checkout, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(checkout)])
    text = loader.explain_load_failure(ImportError(), "2.21.0", checkout / "tensorbow")
    assert "was it ever built?" in text


def test_doctor_names_a_checkout_that_hides_the_installation(checkout):
    from tensorbow.cli import doctor

    (finding,) = doctor._of_the_folder(checkout)
    assert not finding.fails
    assert f"since the sources in {checkout / 'tensorbow'} have no native runtime" in finding.what
    assert "pip install -e ." in finding.fix
    assert doctor._of_the_folder(PACKAGE.parent) == []


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([], "its native runtime is not in"),
        (["_native.cpython-39-x86_64-linux-gnu.so"], "its native runtime is not in"),
        (
            ["libtensorbow.so", "_native.cpython-39-x86_64-linux-gnu.so"],
            "is for another Python: got _native.cpython-39-x86_64-linux-gnu.so, wanted _native.cpy",
        ),
        (["libtensorbow.so", "_native.so"], "its native runtime does not load: undefined symbol"),
    ],
)
def test_why_a_runtime_does_not_load(files, reason, tmp_path):
    for name in files:
        (tmp_path / name).touch()
    error = ImportError("undefined symbol: x")
    assert reason in loader.explain_load_failure(error, "2.21.0", tmp_path)


@pytest.mark.parametrize(
    ("argv", "orig_argv", "command"),
    [
        (["/bin/tensorbow", "train"], ["python", "/bin/tensorbow", "train"], True),
        (["-m", "train"], ["python", "-m", "tensorbow", "train"], True),
        (["/x/tensorbow/__main__.py"], ["python", "-m", "tensorbow"], True),
        (["train.py", "tensorbow"], ["python", "train.py"], False),
        (["-m", "doctor"], ["python", "-m", "pytest", "doctor"], False),
        (["-m"], ["python", "-m", "tensorbow.cli.plan.task_times"], False),
        ([""], ["python"], False),
    ],
)
def test_the_command_is_told_from_programs(argv, orig_argv, command, monkeypatch):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", orig_argv)
    assert loader.is_command() == command


def test_the_public_names_are_those_that_editors_see():
    assert dir(tensorbow) == sorted(tensorbow.__all__)
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (seen,) = (n for n in tree.body if ast.unparse(n).startswith("if TYPE_CHECKING"))
    imported = {alias.name: node.module for node in seen.body for alias in node.names}
    assert set(imported) | {"__version__"} == set(tensorbow.__all__)
    for name, module in imported.items():
        found = getattr(tensorbow, name)
        if inspect.ismodule(found):
            assert found.__name__ == f"{module}.{name}"
        else:
            assert getattr(sys.modules[module], name) is found
    with pytest.raises(AttributeError, match="has no attribute 'Session'"):
        tensorbow.Session  # noqa: B018


def declared(scope: ast.Module | ast.ClassDef) -> dict[str, ast.stmt]:
    """Returns the declarations in a part of a stub, by name."""
    names = {}
    for node in scope.body:
        if isinstance(node, ast.AnnAssign):
            names[node.target.id] = node
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names[node.name] = node
    return names


def public(scope: object) -> set[str]:
    return {name for name in vars(scope) if not name.startswith("_")}


def test_the_stub_declares_all_of_the_runtime():
    """Programs are type-checked by _native.pyi."""
    stub = declared(ast.parse((PACKAGE / "_native.pyi").read_text()))
    assert public(_native) == set(stub)
    classes = {name for name, value in vars(_native).items() if inspect.isclass(value)}
    assert {"SessionHandle", "PreparedRun", "Cluster"} <= classes
    for name in classes:
        assert public(getattr(_native, name)) == set(declared(stub[name])) - {"__init__"}, name
