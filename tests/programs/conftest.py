"""Importing the harness fixes one thread for all stock sessions of the process."""

from tests.programs import _harness  # noqa: F401
