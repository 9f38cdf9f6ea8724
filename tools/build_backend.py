"""setuptools' build backend, which makes pip fetch a TensorFlow only if none is installed.

Without it pip would download the newest TensorFlow and build a runtime for it, whatever TensorFlow
the user has.
"""

from typing import Any

import installed_tensorflow
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403


def _with_tensorflow(needed: list[str]) -> list[str]:
    return [*needed, *installed_tensorflow.needed_to_build(installed_tensorflow.find())]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return _with_tensorflow(build_meta.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return _with_tensorflow(build_meta.get_requires_for_build_editable(config_settings))
