"""The error that leaves a step to stock TensorFlow."""


class FallbackError(Exception):
    """Learners cannot execute the step; says why."""
