"""TensorBow: many small-batch learners per device, inside stock TensorFlow.

Example:
  >>> with tensorbow.TensorBowSession() as sess:      # was: tf.compat.v1.Session()
  ...     sess.run(tf.compat.v1.global_variables_initializer())
  ...     sess.run(train_op, feed_dict={x: images, y: labels})
"""

import importlib
import os
from typing import Any

from tensorbow import _loader

if _loader.is_command():  # TensorFlow reads it once, when it is imported
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
if not _loader.for_doctor():  # which looks at a process of its own
    _loader.load()
    from tensorbow import data
    from tensorbow.adaptive import AdaptiveSGD, MegaBatch
    from tensorbow.cluster import Cluster
    from tensorbow.explanation import Explanation
    from tensorbow.hooks import MetricsHook
    from tensorbow.metrics import LearnerMetrics, Metrics, Quantiles
    from tensorbow.monitored import SessionCreator, SessionManager
    from tensorbow.options import Options
    from tensorbow.session import InteractiveSession, TensorBowSession, TensorBowWarning
    from tensorbow.synchronisers import EASGD, SMA, SSGD, Independent
    from tensorbow.tuning import Measurement
from tensorbow.version import __version__


def __getattr__(name: str) -> Any:
    # Keras takes a while to import, and sessions do not need it.
    if name == "keras":
        return importlib.import_module("tensorbow.keras")
    raise AttributeError(f"module 'tensorbow' has no attribute {name!r}")


__all__ = [
    "EASGD",
    "SMA",
    "SSGD",
    "AdaptiveSGD",
    "Cluster",
    "Explanation",
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
    "keras",
]
