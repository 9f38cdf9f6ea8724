"""Runs TensorFlow's own session tests, with stock sessions or with TensorBow's.

    python run_session_tests.py stock|tensorbow PATH/session_test.py

prints one JSON object: test name → "ok", "failed", "skipped" or "unimplemented: …" with the error's
message.

The tests are TensorFlow's, from a source tree of the installed version; none of it is part of this
project. A test module uses sessions as `session.Session`. It is given a stand-in for that module in
which the name refers to another class. (Rebinding the name inside TensorFlow's module would break
the class's own super() call.)
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import types
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Makes stock sessions and learners use the same kernels, on any processor.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import tensorflow as tf
from tensorflow.python.client import session as stock_session


class CountsWithStock(type):
    """Lets a test reset the count of interactive sessions where TensorFlow keeps it."""

    def __setattr__(cls, name, value):
        owner = stock_session.InteractiveSession if name == "_active_session_count" else cls
        type.__setattr__(owner, name, value)


def stand_in() -> types.ModuleType:
    import tensorbow

    options = tensorbow.Options(learners_per_device=2)

    def with_two_learners(cls: type) -> type:
        class Session(cls, metaclass=CountsWithStock):
            def __init__(self, target="", graph=None, config=None):
                super().__init__(target, graph, config, options)

        return Session

    module = types.ModuleType("session")
    vars(module).update(vars(stock_session))
    module.Session = with_two_learners(tensorbow.TensorBowSession)
    module.InteractiveSession = with_two_learners(tensorbow.InteractiveSession)
    return module


class Recorder(unittest.TestResult):
    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, str] = {}

    def startTest(self, test):  # noqa: N802
        super().startTest(test)
        self.outcomes[test.id()] = "ok"

    def _note(self, test, outcome, error=None):
        self.outcomes[test.id()] = outcome
        if error is not None:
            print(f"{test.id()}\n{self._exc_info_to_string(error, test)}", file=sys.stderr)

    def addError(self, test, err):  # noqa: N802
        if issubclass(err[0], tf.errors.UnimplementedError):
            self._note(test, f"unimplemented: {err[1].message}")
        else:
            self._note(test, "failed", err)

    def addFailure(self, test, err):  # noqa: N802
        self._note(test, "failed", err)

    def addSkip(self, test, reason):  # noqa: N802
        self._note(test, "skipped")


def main() -> None:
    kind, path = sys.argv[1:]
    tf.compat.v1.disable_v2_behavior()
    spec = importlib.util.spec_from_file_location("tensorflow_test", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["tensorflow_test"] = module
    spec.loader.exec_module(module)
    if kind == "tensorbow":
        module.session = stand_in()
    recorder = Recorder()
    unittest.defaultTestLoader.loadTestsFromModule(module).run(recorder)
    print(json.dumps(recorder.outcomes))
    sys.stdout.flush()
    os._exit(0)  # servers that tests started never end by themselves


if __name__ == "__main__":
    main()
