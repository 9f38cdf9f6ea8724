"""The part of `tensorbow doctor` that runs in a fresh process: versions, devices, training."""

from __future__ import annotations

import pathlib
from typing import Any


def installed() -> dict[str, Any]:
    """Returns versions and devices, for JSON."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tensorbow
    from tensorbow import _native
    from tensorbow._runtime import loader

    found: dict[str, Any] = {
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "tensorbow": tensorbow.__version__,
        "built_for": _native.tensorflow_version,
        "compiler": _native.compiler,
        "cores": _native.num_cores(),
        "gpus": len(tf.config.list_physical_devices("GPU")),
        "gpus_used": _native.num_accelerators(),
        "gpu_library": loader.load_gpu_library(pathlib.Path(tensorbow.__file__).parent),
    }
    try:
        import tensorbow.keras  # noqa: F401
    except ImportError as error:
        found["keras_error"] = str(error)
    return found


def train() -> dict[str, Any]:
    """Trains a weight towards 2 with two learners; returns it, and their devices."""
    import numpy as np
    import tensorflow as tf

    import tensorbow

    tf1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        w = tf1.get_variable("w", initializer=np.float32(0))
        x = tf1.placeholder(tf.float32, [None])
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean((w - x) ** 2))
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(learners_per_device=2)
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        devices = list(dict.fromkeys(session.learner_devices))
        session.run(init)
        for _ in range(200):
            session.run(train, {x: [1, 1, 3, 3]})
        weight = float(session.run(w))
    return {"devices": devices, "weight": weight, "trains": abs(weight - 2) < 1e-3}
