"""Loads the native runtime into the installed TensorFlow, or says why it cannot."""

from __future__ import annotations

import ctypes
import importlib
import pathlib
import warnings
from types import ModuleType

TENSORFLOW_WANTED = ">=2.21,<2.22"
_WANTED_RELEASE = (2, 21)
KERAS_WANTED = ">=3.12,<4"
_KERAS_WANTED = (3, 12)


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def check_tensorflow_version(found: str) -> None:
    """Raises ImportError unless `found` is a TensorFlow that TensorBow works inside."""
    if _release(found) != _WANTED_RELEASE:
        raise ImportError(
            f"TensorBow found TensorFlow {found}, but wants TensorFlow "
            f"{TENSORFLOW_WANTED}: it extends TensorFlow's C++ runtime, which changes "
            f"with every release. Fix: pip install 'tensorflow{TENSORFLOW_WANTED}' (or "
            "'tensorflow-cpu') and reinstall tensorbow."
        )


def check_keras_version(found: str) -> None:
    """Raises ImportError unless `found` is a Keras that `tensorbow.keras` works with."""
    if not _KERAS_WANTED <= _release(found) < (4, 0):
        raise ImportError(
            f"tensorbow.keras found Keras {found}, but wants Keras {KERAS_WANTED}, as TensorFlow "
            f"{TENSORFLOW_WANTED} does. Fix: pip install 'keras{KERAS_WANTED}'."
        )


def check_built_for(built: str, found: str) -> None:
    """Raises ImportError if the native runtime was compiled for another TensorFlow."""
    if built != found:
        raise ImportError(
            f"TensorBow's native runtime was built for TensorFlow {built}, but "
            f"TensorFlow {found} is installed. Fix: reinstall tensorbow "
            "(pip install --force-reinstall --no-deps .), which builds it anew."
        )


def explain_load_failure(error: BaseException, found: str, directory: pathlib.Path) -> str:
    """The sentence for a native runtime that does not load."""
    if not list(directory.glob("_native*.so")) or not (directory / "libtensorbow.so").exists():
        reason = f"its native runtime is not in {directory} (was it ever built?)"
    else:
        reason = f"its native runtime does not load: {error}"
    return (
        f"TensorBow cannot start inside TensorFlow {found} (wanted {TENSORFLOW_WANTED}): "
        f"{reason}. Fix: reinstall tensorbow next to the TensorFlow you use "
        "(pip install --force-reinstall --no-deps .)."
    )


def gpu_driver() -> bool:
    """Whether this machine has NVIDIA's driver."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def load_gpu_library(directory: pathlib.Path) -> str:
    """Loads libtensorbow_gpu.so where it can be of use; says what came of it.

    Without it, learners compute on the CPU.

    Returns:
      "loaded", or why it is not.
    """
    library = directory / "libtensorbow_gpu.so"
    if not library.exists():
        return "not built (it takes TensorFlow's GPU wheel and nvcc)"
    if not gpu_driver():
        return "not needed: this machine has no NVIDIA driver"
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return f"does not load: {error}"
    return "loaded"


def load() -> ModuleType:
    """Imports TensorFlow and the native runtime; ImportError with the way out if not."""
    try:
        import tensorflow as tf
    except ImportError as error:
        raise ImportError(
            "TensorBow extends TensorFlow, but TensorFlow cannot be imported "
            f"({error}). Fix: pip install 'tensorflow{TENSORFLOW_WANTED}'."
        ) from error
    check_tensorflow_version(tf.__version__)
    directory = pathlib.Path(__file__).resolve().parent
    try:
        native = importlib.import_module("tensorbow._native")
    except ImportError as error:
        raise ImportError(explain_load_failure(error, tf.__version__, directory)) from error
    check_built_for(native.tensorflow_version, tf.__version__)
    gpu = load_gpu_library(directory)
    if gpu.startswith("does not load"):
        warnings.warn(
            f"TensorBow's learners stay on the CPU: libtensorbow_gpu.so {gpu}. Fix: reinstall "
            "tensorbow next to the TensorFlow you use (pip install --force-reinstall "
            "--no-deps .).",
            RuntimeWarning,
            stacklevel=2,
        )
    return native
