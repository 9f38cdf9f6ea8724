"""TensorFlow-1 programs as people wrote them, run on stock sessions and on TensorBow's.

Each module here (but for the ones with an underscore, the table and the tests) is one
small program. Its `train(sessions, seed, directory)` builds a graph, trains it in sessions
that it opens from `sessions` and returns an `Outcome`. Nothing else in a program knows
which sessions it got; `_harness` runs programs and compares.
"""
