"""TensorBow: many small-batch learners per device, inside stock TensorFlow.

Example:
  >>> with tensorbow.TensorBowSession() as sess:      # was: tf.compat.v1.Session()
  ...     sess.run(tf.compat.v1.global_variables_initializer())
  ...     sess.run(train_op, feed_dict={x: images, y: labels})
"""

import importlib
from typing import TYPE_CHECKING, Any

from tensorbow._runtime import loader as _loader
from tensorbow.version import __version__

if TYPE_CHECKING:
    from tensorbow import data, keras
    from tensorbow._function import Function, function, session_of
    from tensorbow._runtime.messages import TensorBowWarning
    from tensorbow.adaptive import AdaptiveSGD, MegaBatch
    from tensorbow.cluster import Cluster
    from tensorbow.comparison import Comparison, Difference
    from tensorbow.explanation import Explanation
    from tensorbow.hooks import MetricsHook
    from tensorbow.metrics import LearnerMetrics, Metrics, Quantiles
    from tensorbow.monitored import SessionCreator, SessionManager
    from tensorbow.options import Options
    from tensorbow.session import InteractiveSession, TensorBowSession
    from tensorbow.synchronisers import EASGD, SMA, SSGD, Independent
    from tensorbow.tuning import Measurement

__all__ = [
    "EASGD",
    "SMA",
    "SSGD",
    "AdaptiveSGD",
    "Cluster",
    "Comparison",
    "Difference",
    "Explanation",
    "Function",
    "Independent",
    "InteractiveSession",
    "LearnerMetrics",
    "Measurement",
    "MegaBatch",
    "Metrics",
    "MetricsHook",
    "Options",
    "Quantiles",
    "SessionCreator",
    "SessionManager",
    "TensorBowSession",
    "TensorBowWarning",
    "__version__",
    "data",
    "function",
    "keras",
    "session_of",
]

# The modules of the names above; a test compares them with the imports.
_MODULES = {
    "_function": ("Function", "function", "session_of"),
    "_runtime.messages": ("TensorBowWarning",),
    "adaptive": ("AdaptiveSGD", "MegaBatch"),
    "cluster": ("Cluster",),
    "comparison": ("Comparison", "Difference"),
    "explanation": ("Explanation",),
    "hooks": ("MetricsHook",),
    "metrics": ("LearnerMetrics", "Metrics", "Quantiles"),
    "monitored": ("SessionCreator", "SessionManager"),
    "options": ("Options",),
    "session": ("InteractiveSession", "TensorBowSession"),
    "synchronisers": ("EASGD", "SMA", "SSGD", "Independent"),
    "tuning": ("Measurement",),
    "data": (),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # mypy reads the imports above

    def __getattr__(name: str) -> Any:
        """Imports a public name at its first use, with TensorFlow and the native runtime."""
        if name not in __all__:
            raise AttributeError(f"module 'tensorbow' has no attribute {name!r}")
        _loader.load()
        module = importlib.import_module(f"tensorbow.{_MODULE_OF.get(name, name)}")
        found = getattr(module, name) if name in _MODULE_OF else module
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)


# Programs import everything here, or get an error; the command parses its arguments first.
if not _loader.use_installation() and not _loader.is_command():
    _loader.load()
    for _module, _names in _MODULES.items():
        _imported = importlib.import_module(f"tensorbow.{_module}")
        globals().update({_name: getattr(_imported, _name) for _name in _names})
