"""Plans are kept by the identity of a run (tensorbow/_session/plan.py), never by objects that are
gone."""

import gc
import types
from collections import UserDict

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session

tf1 = tf.compat.v1

LEARNERS = [1, 2]


def numbered(count):
    """Makes a graph with tensors t0, t1, … of values 0, 1, … and a placeholder x."""
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        p.tensors = [tf.constant(k, name=f"t{k}") for k in range(count)]
        p.x = tf1.placeholder(tf.float32, [], name="x")
        p.y = tf1.placeholder(tf.float32, [], name="y")
        p.difference = tf.subtract(p.x, p.y, name="difference")
    return p


def replace(fetches, index, letter, k):
    """Replaces a name by a new one after its deletion, so that it mostly gets the same id."""
    fetches[index] = None
    if k % 10 == 0:
        gc.collect(0)
    fetches[index] = "".join([letter, str(k), ":0"])


def test_fetch_list_may_change_between_runs():
    p = numbered(100)
    fetches = ["t0:0", "t0:0"]
    with session(p.graph) as s:
        for k in range(100):
            replace(fetches, 1, "t", k)
            assert s.run(fetches) == [0, k]
        fetches.append("t7:0")
        assert s.run(fetches) == [0, 99, 7]
        del fetches[:2]
        assert s.run(fetches) == [7]
        assert s.run(tuple(fetches)) == (7,)


def test_fetches_may_be_made_for_one_run_and_deleted():
    p = numbered(60)
    with session(p.graph) as s:
        for k in range(1, 60):
            values, indices, names = p.tensors[k], p.tensors[k - 1], [f"t{k}:0", f"t{k - 1}:0"]
            slices = tf.IndexedSlices(values, indices)
            value = s.run([slices])[0]
            assert (value.values, value.indices) == (k, k - 1)
            del slices
            assert s.run(names) == [k, k - 1]
            del names
            assert s.run(f"t{k}:0") == k
            if k % 20 == 0:
                gc.collect(0)


@pytest.mark.parametrize("learners", LEARNERS)
def test_learning_runs_may_change_what_they_fetch(learners):
    p = linear()
    x, y = rows(8)
    feeds = {p.x: x, p.y: y}
    with p.graph.as_default():
        constants = [tf.constant(float(k), name=f"c{k}") for k in range(30)]
    fetches = [p.train, None]
    with session(p.graph, learners) as s:
        s.run(p.init)
        for k in range(30):
            replace(fetches, 1, "c", k)
            for _ in range(2):
                assert s.run(fetches, feeds)[1] == k
        fetches[1] = constants[3]
        assert s.run(fetches, feeds)[1] == 3
        fetches[1] = p.train
        assert s.run(fetches, feeds) == [None, None]
        assert s.iterations == 62


def test_feed_dict_may_change_between_runs():
    p = numbered(1)
    feeds = {p.x: 5, p.y: 3}
    with session(p.graph) as s:
        for x in range(3):
            feeds[p.x] = x
            assert s.run(p.difference, feeds) == x - 3
        feeds[p.x] = feeds.pop(p.x)  # now the last one
        assert s.run(p.difference, feeds) == 2 - 3
        del feeds[p.y]
        with pytest.raises(tf.errors.InvalidArgumentError, match="must feed a value"):
            s.run(p.difference, feeds)
        feeds["y:0"] = 10
        assert s.run(p.difference, feeds) == -8
        for k in range(30):
            named = {"".join([name, ":", str(0)]): v for name, v in (("y", k), ("x", 2 * k))}
            assert s.run(p.difference, named) == k
            del named
        gc.collect(0)
        assert s.run(p.difference, {p.x: 1, p.y: 4}) == -3


def test_structure_inside_a_fetch_list_may_change():
    p = numbered(3)
    inner = UserDict(a=p.tensors[1])
    with session(p.graph) as s:
        assert s.run([p.tensors[0], inner]) == [0, {"a": 1}]
        inner["a"] = p.tensors[2]
        assert s.run([p.tensors[0], inner]) == [0, {"a": 2}]


def test_as_many_plans_are_kept_as_there_are_different_runs():
    p = linear()
    x, y = rows(8)
    with session(p.graph) as s:
        s.run(p.init)
        for k in range(20):
            s.run(["train", "".join(["loss", ":0"])], {p.x: x, p.y: y})
            s.run([p.w, p.step])
            np.testing.assert_array_equal(s.run((p.step,)), [k + 1])
        assert len(s._plans) == 4
