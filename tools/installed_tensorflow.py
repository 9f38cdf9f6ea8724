"""Which TensorFlow the native runtime is built for: the installed one, if there is one.

pip builds a package in an environment of its own, without what is installed. The runtime
must be compiled against the TensorFlow that it is going to live in, so that one is looked
for in the Python's own folders, too.
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
    """Where to look: what this process imports from, then what pip hides from a build."""
    hidden = site.getsitepackages()
    if sys.prefix == sys.base_prefix:  # a virtual environment does not see the user's
        hidden.append(site.getusersitepackages())
    return [sys.path, hidden]


def find(paths: Iterable[list[str]] | None = None) -> TensorFlow | None:
    """The first TensorFlow on the paths."""
    for path in search_paths() if paths is None else paths:
        for name in DISTRIBUTIONS:
            for distribution in importlib.metadata.distributions(name=name, path=path):
                directory = str(distribution.locate_file(""))
                return TensorFlow(name, distribution.version, directory)
    return None


def is_supported(found: TensorFlow | None) -> bool:
    """Whether there is one that TensorBow works inside."""
    return found is not None and bool(RELEASES["is_supported"](found.version))


def refusal(found: TensorFlow | None) -> str:
    """Why nothing can be built for it."""
    got = "none" if found is None else f"TensorFlow {found.version} in {found.directory}"
    wanted = "tensorflow" + RELEASES["TENSORFLOW_WANTED"]
    return (
        f"TensorBow is built for the TensorFlow that is installed: found {got}, wanted "
        f"{wanted}. Fix: pip install '{wanted}', then install TensorBow again."
    )


def needed_to_build(found: TensorFlow | None) -> list[str]:
    """What pip has to fetch for the build: nothing if there is a TensorFlow to build for."""
    return [] if is_supported(found) else [f"tensorflow=={RELEASES['newest']()}.*"]


def dependencies(found: TensorFlow | None) -> list[str]:
    """What the package built for it depends on, besides TensorFlow's own dependencies."""
    if found is not None and is_supported(found):
        tensorflow = found.distribution + RELEASES["requirement"](found.version)
    else:
        tensorflow = "tensorflow" + RELEASES["TENSORFLOW_WANTED"]
    return [tensorflow, "numpy", "absl-py"]


def version_for(version: str, found: TensorFlow | None) -> str:
    """`version`, told apart from that of a package built for another release."""
    if found is None:
        return version
    major, minor = RELEASES["release"](found.version)
    return f"{version}+tf{major}.{minor}"
