"""States that several hosts save together, and continue from."""

import pytest

from tensorbow import cli
from tests.python.host_programs import ROWS
from tests.python.hosts import Hosts

LAGGING = {"centre": "lagging", "momentum": 0.9}


def run(
    path, runs, load=False, late=(), learners=2, synchroniser="SMA", hosts=2, period=1, options=None
):
    arguments = learners, synchroniser, str(path), runs, load, list(late), period, options
    with Hosts(hosts, "saves", *arguments) as running:
        return running.results()


@pytest.mark.parametrize(
    ("synchroniser", "learners", "hosts", "period", "options"),
    [
        ("SMA", 2, 2, 3, {}),
        ("SSGD", 2, 2, 1, {}),
        ("SMA", 1, 4, 1, LAGGING | {"sync_period": 3, "ema_decay": 0.75}),
    ],
)
def test_hosts_go_on_bit_for_bit(tmp_path, synchroniser, learners, hosts, period, options):
    """Hosts merge again two iterations after the save, with a period of 3."""
    how = {
        "learners": learners,
        "synchroniser": synchroniser,
        "hosts": hosts,
        "period": period,
        "options": options,
    }
    whole = run(tmp_path / "whole", [13] * hosts, **how)
    run(tmp_path / "state", [10] * hosts, **how)
    resumed = run(tmp_path / "state", [13] * hosts, load=True, **how)
    assert resumed == whole
    for result in whole:
        assert not result["error"]
        assert result["counts"] == [13, 13 * hosts * learners, 13 * hosts * ROWS]


def test_who_lacks_the_last_save_takes_the_others_back_to_the_one_before(tmp_path):
    """A host dies between the others' commit and its own: all continue from the save before."""
    whole = run(tmp_path / "whole", [18, 18])
    run(tmp_path / "state", [13, 13])
    resumed = run(tmp_path / "state", [18, 18], load=True, late=[1])
    assert resumed == whole
    assert run(tmp_path / "state", [18, 18], load=True, late=[0]) == whole


def test_what_cannot_be_loaded_is_told_on_every_host(tmp_path):
    first, second = run(tmp_path / "state", [3, 3], load=True)
    for result in (first, second):
        assert result["error"].startswith("NotFoundError: There is no saved state")
    run(tmp_path / "state", [5, 5])
    first, second = run(tmp_path / "state", [7, 7], load=True, learners=1)
    for result in (first, second):
        assert "alpha=0.5" in result["error"] or "of hosts with 2 learners" in result["error"]
    (tmp_path / "state-host1").unlink()
    first, second = run(tmp_path / "state", [7, 7], load=True)
    for result in (first, second):
        assert "Host 1 has no part of the saved state" in result["error"]


def test_a_host_that_cannot_save_keeps_the_others_from_it(tmp_path):
    """All keep their earlier save."""
    path = tmp_path / "state"
    (tmp_path / "state-host1").write_text("something else")
    first, second = run(path, [5, 5])
    assert second["error"].startswith("FailedPreconditionError")
    assert "is not a state saved by save_state" in second["error"]
    assert first["error"].startswith("AbortedError: Host 1 cannot save its part of the state")
    assert not (tmp_path / "state-host0").exists()


DIES = """
import json, os, pathlib, signal, sys
import numpy as np, tensorflow as tf, tensorbow
tf.compat.v1.disable_eager_execution()
path, dies = sys.argv[1], int(sys.argv[2])
x = tf.compat.v1.placeholder(tf.float64, [None, 3])
w = tf.compat.v1.get_variable("w", [3], tf.float64)
loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - 1))
train = tf.compat.v1.train.MomentumOptimizer(0.1, 0.5).minimize(loss)
options = tensorbow.Options(cluster="auto", learners_per_device=2, pin_threads=False)
rank = options.cluster.rank
with tensorbow.TensorBowSession(options=options) as session:
    try:
        session.load_state(path)
    except tf.errors.NotFoundError:
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(w.assign([1.0, 2.0, 3.0]))
    for step in range(session.iterations, 23):
        rows = np.random.default_rng([rank, step]).standard_normal((6, 3))
        session.run(train, {x: rows})
        if step % 5 == 4:
            session.save_state(path)
        killed = pathlib.Path(f"{path}.killed")
        if (rank, step) == (1, dies) and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    pathlib.Path(f"{path}.result{rank}").write_text(json.dumps(session.run(w).tolist()))
"""


def test_a_launch_goes_on_from_the_last_save_when_a_host_is_killed(tmp_path, warm_python):
    program = tmp_path / "dies.py"
    program.write_text(DIES)

    def launch(name, dies):
        arguments = [str(program), str(tmp_path / name), str(dies)]
        assert cli.main(["launch", "--hosts", "2", "--max-restarts", "1", *arguments]) == 0
        return [(tmp_path / f"{name}.result{rank}").read_text() for rank in range(2)]

    undisturbed = launch("whole", -1)
    assert not (tmp_path / "whole.killed").exists()
    assert launch("state", 12) == undisturbed
    assert (tmp_path / "state.killed").exists()
    assert undisturbed[0] == undisturbed[1]
