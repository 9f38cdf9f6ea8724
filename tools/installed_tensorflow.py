"""The TensorFlow that the native runtime is built for: the installed one, if there is one.

pip builds a package in an environment of its own, without the installed packages. The runtime must
be compiled against the TensorFlow with which it will be loaded, so this also searches the Python's
own folders.
"""

from __future__ import annotations

import importlib.metadata
import pathlib
import runpy
import site
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
RELEASES: dict[str, Any] = runpy.run_path(str(ROOT / "tensorbow" / "_runtime" / "releases.py"))
DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu")


class TensorFlow(NamedTuple):
    """An installed TensorFlow.

    Attributes:
      distribution: its name for pip.
      version: as pip has it.
      directory: the folder to import it from.
    """

    distribution: str
    version: str
    directory: str


def search_paths() -> list[list[str]]:
    """Returns this process's import paths, then the folders that pip hides from a build."""
    hidden = site.getsitepackages()
    if sys.prefix == sys.base_prefix:  # a virtual environment does not see the user's packages
        hidden.append(site.getusersitepackages())
    return [sys.path, hidden]


def find(paths: Iterable[list[str]] | None = None) -> TensorFlow | None:
    """Returns the first TensorFlow on the paths."""
    for path in search_paths() if paths is None else paths:
        for name in DISTRIBUTIONS:
            for distribution in importlib.metadata.distributions(name=name, path=path):
                directory = str(distribution.locate_file(""))
                return TensorFlow(name, distribution.version, directory)
    return None


def is_supported(found: TensorFlow | None) -> bool:
    """Returns whether there is one that TensorBow supports."""
    return found is not None and bool(RELEASES["is_supported"](found.version))


def refusal(found: TensorFlow | None) -> str:
    """Returns why nothing can be built for it."""
    got = "none" if found is None else f"TensorFlow {found.version} in {found.directory}"
    wanted = "tensorflow" + RELEASES["TENSORFLOW_WANTED"]
    return (
        f"TensorBow is built for the TensorFlow that is installed: found {got}, wanted "
        f"{wanted}. Fix: pip install '{wanted}', then install TensorBow again."
    )


def needed_to_build(found: TensorFlow | None) -> list[str]:
    """Returns the packages that pip must fetch for the build: none if a TensorFlow is installed."""
    return [] if is_supported(found) else [f"tensorflow=={RELEASES['newest']()}.*"]


def dependencies(found: TensorFlow | None) -> list[str]:
    """Returns the dependencies of the package built for it, besides TensorFlow's own."""
    if found is not None and is_supported(found):
        tensorflow = found.distribution + RELEASES["requirement"](found.version)
    else:
        tensorflow = "tensorflow" + RELEASES["TENSORFLOW_WANTED"]
    return [tensorflow, "numpy", "absl-py"]


def version_for(version: str, found: TensorFlow | None) -> str:
    """Returns `version` with a suffix for the release that the package is built for."""
    if found is None:
        return version
    major, minor = RELEASES["release"](found.version)
    return f"{version}+tf{major}.{minor}"
