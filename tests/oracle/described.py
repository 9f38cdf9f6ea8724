"""Dataclasses whose text is the shortest Python that creates them."""

from __future__ import annotations

import dataclasses


class Described:
    """Omits default values from its text, so that a shrunken case is short."""

    def __repr__(self):
        told = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING or value != field.default:
                told.append(f"{field.name}={_text(value)}")
        return f"{type(self).__name__}({', '.join(told)})"


def _text(value):
    if isinstance(value, Described) or not dataclasses.is_dataclass(value):
        return repr(value)
    return Described.__repr__(value)  # a synchroniser


def described(cls):
    """Makes a frozen dataclass with such a text."""
    return dataclasses.dataclass(frozen=True, repr=False)(cls)
