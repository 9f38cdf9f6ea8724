"""The TensorFlow releases that TensorBow works inside, and the Keras that goes with each.

The build executes this file, too, where there may be no TensorFlow yet: it imports nothing.
docs/releases.md says what was tested with which.
"""

from __future__ import annotations

# TensorFlow's release → the first release of Keras that tensorbow.keras works with there.
KERAS_OF = {(2, 19): (3, 12), (2, 20): (3, 12), (2, 21): (3, 12)}

_OLDEST, _NEWEST = min(KERAS_OF), max(KERAS_OF)
TENSORFLOW_WANTED = f">={_OLDEST[0]}.{_OLDEST[1]},<{_NEWEST[0]}.{_NEWEST[1] + 1}"  # for pip


def release(version: str) -> tuple[int, int]:
    """Returns the first two numbers of a version: (2, 21) for "2.21.0-rc1"."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def newest() -> str:
    """Returns the newest release, for example "2.21"."""
    return f"{_NEWEST[0]}.{_NEWEST[1]}"


def is_supported(version: str) -> bool:
    """Returns true if the runtime works inside this TensorFlow."""
    return release(version) in KERAS_OF


def requirement(version: str) -> str:
    """Returns the requirement, for pip, of a runtime that is built for `version`."""
    major, minor = release(version)
    return f"=={major}.{minor}.*"


def keras_wanted(version: str) -> str:
    """Returns the requirement, for pip, of `tensorbow.keras` inside this TensorFlow."""
    major, minor = KERAS_OF[release(version)]
    return f">={major}.{minor},<4"
