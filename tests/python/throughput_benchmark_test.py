"""benchmarks/throughput.py against another working tree."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))

import throughput
from contenders import Contender
from interleave import Process

# A stand-in for another tree's benchmark: it takes the seconds in its settings.
SCRIPT = """
import json, os, sys
job = json.loads(sys.argv[1])
assert os.environ["PYTHONPATH"] == job["tree"]
for line in sys.stdin:
    print("seconds", int(line) * job["settings"]["seconds"], flush=True)
"""


def test_several_learners_are_measured_in_both_trees():
    compared = throughput.against("/earlier", throughput.contenders(16, [1, 2]))
    assert [(c.name, c.tree) for c in compared] == [
        ("tf.Session", ""),
        ("TensorBow, 2 learners, SMA", ""),
        ("TensorBow, 2 learners, SMA, before", "/earlier"),
        ("TensorBow, 2 learners, S-SGD", ""),
        ("TensorBow, 2 learners, S-SGD, before", "/earlier"),
        ("TensorBow, 2 learners, no averaging", ""),
        ("TensorBow, 2 learners, no averaging, before", "/earlier"),
    ]
    assert {(c.make, c.rows_per_step) for c in compared[1:]} == {("tensorbow_session", 32)}


def test_a_contender_of_another_tree_is_executed_there(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "interleave.py").write_text(SCRIPT)
    process = Process(Contender("a", "b", 32, {"seconds": 0.5}, tree=str(tmp_path)), "lenet")
    try:
        assert process.seconds(4) == 2.0
        assert process.slice() == 64
    finally:
        process.end()
