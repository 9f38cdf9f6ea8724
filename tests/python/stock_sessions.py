"""Helpers for comparisons with stock sessions."""

from __future__ import annotations


def loader(variables, session):
    """Returns a function of the variables' values, in their order, that assigns all in one run.

    `Variable.load` takes a run for each.
    """
    initializers = [variable.initializer for variable in variables]
    return session.make_callable(initializers, [each.inputs[1] for each in initializers])
