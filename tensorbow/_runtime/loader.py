"""Loader of the native runtime into the installed TensorFlow, with errors that say the remedy."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType

from tensorbow._runtime.messages import warn
from tensorbow._runtime.releases import (
    KERAS_OF,
    TENSORFLOW_WANTED,
    is_supported,
    keras_wanted,
    release,
    requirement,
)

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
_MARKER = re.compile(rb"TensorBow is built for TensorFlow ([0-9][^\0]*)\0")


def reinstall(found: str) -> str:
    """Returns the command that installs a runtime for the TensorFlow that is installed."""
    major, minor = release(found)
    return (
        "reinstall tensorbow: pip install --force-reinstall --no-deps PATH, with the path of its "
        f"sources, or of a wheel for TensorFlow {major}.{minor}"
    )


def check_tensorflow_version(found: str) -> None:
    """Raises ImportError unless `found` is a TensorFlow that TensorBow works inside."""
    if not is_supported(found):
        raise ImportError(
            f"TensorBow found TensorFlow {found}, but wants TensorFlow "
            f"{TENSORFLOW_WANTED}: it extends TensorFlow's C++ runtime, which changes "
            f"with every release. Fix: pip install 'tensorflow{TENSORFLOW_WANTED}' (or "
            "'tensorflow-cpu') and reinstall tensorbow."
        )


def check_keras_version(found: str, tensorflow: str) -> None:
    """Raises ImportError unless `found` is a Keras that `tensorbow.keras` works with."""
    wanted = keras_wanted(tensorflow)
    if not KERAS_OF[release(tensorflow)] <= release(found) < (4, 0):
        raise ImportError(
            f"tensorbow.keras found Keras {found}, but wants Keras {wanted} in TensorFlow "
            f"{tensorflow}. Fix: pip install 'keras{wanted}'."
        )


def built_for(directory: pathlib.Path) -> str | None:
    """Returns the TensorFlow version that the runtime in `directory` was compiled against.

    Read from the file: a runtime for another TensorFlow need not even load.
    """
    for module in directory.glob("_native*.so"):
        marker = _MARKER.search(module.read_bytes())
        if marker:
            return marker[1].decode()
    return None


def check_built_for(built: str, found: str) -> None:
    """Raises ImportError if the native runtime was compiled for another release.

    Patch releases of one release may differ: docs/releases.md says why.
    """
    if release(built) != release(found):
        raise ImportError(
            f"TensorBow's native runtime was built for TensorFlow {built}, but "
            f"TensorFlow {found} is installed. Fix: pip install "
            f"'tensorflow{requirement(built)}', or {reinstall(found)}."
        )


def installed_beside(directory: pathlib.Path) -> pathlib.Path | None:
    """Finds the other TensorBow on Python's path, which the sources in `directory` hide."""
    elsewhere = [part for part in sys.path if pathlib.Path(part).resolve() != directory.parent]
    found = importlib.machinery.PathFinder.find_spec("tensorbow", elsewhere)
    return pathlib.Path(found.origin).parent if found and found.origin else None


def is_unbuilt_checkout(directory: pathlib.Path) -> bool:
    """Returns true for TensorBow's sources without a native runtime."""
    files = (directory / "_runtime" / "loader.py", directory.parent / "setup.py")
    return all(file.exists() for file in files) and not any(directory.glob("_native*.so"))


def use_installation() -> bool:
    """Imports the installed TensorBow if this is a checkout without a native runtime.

    Python imports from the folder it is started in: in a checkout, the sources.

    Returns:
      true if `tensorbow` is the installed package now.
    """
    directory = PACKAGE
    installed = installed_beside(directory) if is_unbuilt_checkout(directory) else None
    if installed is None:
        return False
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorbow"]:
        del sys.modules[name]
    spec = importlib.util.spec_from_file_location("tensorbow", installed / "__init__.py")
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["tensorbow"] = package
    spec.loader.exec_module(package)
    return True


def explain_load_failure(error: BaseException, found: str, directory: pathlib.Path) -> str:
    """Returns the error text for a native runtime that does not load."""
    modules = [file.name for file in directory.glob("_native*.so")]
    importable = {"_native" + suffix for suffix in EXTENSION_SUFFIXES}
    if not modules or not (directory / "libtensorbow.so").exists():
        reason = f"its native runtime is not in {directory} (was it ever built?)"
    elif importable.isdisjoint(modules):
        reason = f"its native runtime is for another Python: got {modules[0]}, wanted "
        reason += f"_native{EXTENSION_SUFFIXES[0]}"
    else:
        reason = f"its native runtime does not load: {error}"
    return (
        f"TensorBow cannot start inside TensorFlow {found} (wanted {TENSORFLOW_WANTED}): "
        f"{reason}. Fix: {reinstall(found)}."
    )


def is_command() -> bool:
    """Returns true if this process is the command `tensorbow`."""
    if sys.argv[0] == "-m":
        return "tensorbow" in sys.orig_argv
    script = pathlib.Path(sys.argv[0])
    return script.name == "tensorbow" or script.parts[-2:] == ("tensorbow", "__main__.py")


def wants_log() -> bool:
    """Returns true if the user asks for TensorFlow's log, by TF_CPP_MIN_LOG_LEVEL=0 or 1."""
    return os.environ.get("TF_CPP_MIN_LOG_LEVEL") in ("0", "1")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Drops what TensorFlow logs while it is imported, unless the user wants it.

    TensorFlow heeds its own variable only afterwards. If the import fails, the log is shown.
    """
    if wants_log():
        yield
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        except BaseException:
            log.seek(0)
            os.write(terminal, log.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def gpu_driver() -> bool:
    """Returns true if this machine has NVIDIA's driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def cuda_build() -> bool:
    """Returns true if the installed TensorFlow supports NVIDIA's GPUs."""
    import tensorflow as tf

    return bool(tf.sysconfig.get_build_info()["is_cuda_build"])


def load_gpu_library(directory: pathlib.Path) -> str:
    """Loads libtensorbow_gpu.so if it is built and this machine has GPUs.

    Without it, learners compute on the CPU.

    Returns:
      "loaded", or why it is not.
    """
    library = directory / "libtensorbow_gpu.so"
    if not library.exists():
        return "not built (it takes TensorFlow's GPU wheel and nvcc)"
    if not gpu_driver():
        return "not needed: this machine has no NVIDIA driver"
    if not cuda_build():
        return "not needed: this TensorFlow is built for the CPU"
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return f"does not load: {error}"
    return "loaded"


@functools.cache
def load() -> ModuleType:
    """Imports TensorFlow and the native runtime; raises ImportError with a remedy."""
    try:
        with _quiet() if is_command() else contextlib.nullcontext():
            import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "TensorBow extends TensorFlow, but TensorFlow cannot be imported "
            f"({error}). Fix: pip install 'tensorflow{TENSORFLOW_WANTED}'."
        ) from error
    check_tensorflow_version(tf.__version__)
    directory = PACKAGE
    built = built_for(directory)
    if built is not None:
        check_built_for(built, tf.__version__)
    try:
        native = importlib.import_module("tensorbow._native")
    except ImportError as error:
        raise ImportError(explain_load_failure(error, tf.__version__, directory)) from error
    gpu = load_gpu_library(directory)
    if gpu.startswith("does not load"):
        warn(
            f"TensorBow's learners stay on the CPU: libtensorbow_gpu.so {gpu}. Fix: "
            f"{reinstall(tf.__version__)}.",
            RuntimeWarning,
        )
    return native
