"""An extension of mkdocstrings' reader: a docstring's "Example:" is shown as code."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section to the name that the reader knows."""

    def on_object(self, *, obj: griffe.Object, **arguments: Any) -> None:
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = re.sub(r"^( *)Example:$", r"\1Examples:", text, flags=re.M)
