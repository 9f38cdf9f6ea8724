"""A model whose replicas do not fit into the memory: numbers, or fewer learners.

The available memory is simulated by files of the system's layout, or by a number that replaces
`tensorbow._session.memory.available_bytes`: both are seams for tests, there is no option.
"""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows
from tensorflow.python.eager import context

import tensorbow
from tensorbow._session import memory

tf1 = tf.compat.v1
MIB = 2**20
FEWER = r"fewer learners train\. Use Options\(learners_per_device=2\),.* 4 learners need"
COLUMNS = 1 << 16  # w has 2^18 bytes, a quarter of a MiB
BYTES = 4 * COLUMNS


def momentum():
    return tf1.train.MomentumOptimizer(1e-6, 0.9)


def adam():
    return tf1.train.AdamOptimizer(1e-6)


def there(monkeypatch, count):
    monkeypatch.setattr(memory, "available_bytes", lambda: int(count))


def session(program, **options):
    """Makes a session of averaged models, unless `options` say otherwise."""
    options.setdefault("synchroniser", tensorbow.SMA())
    made = tensorbow.TensorBowSession(graph=program.graph, options=tensorbow.Options(**options))
    made.run(program.init)
    return made


def step(program, s):
    x, y = rows(8, COLUMNS)
    s.run(program.train, {program.x: x, program.y: y})


# ------------------------------------------------------------------ the system's numbers


def system(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return memory.available_bytes(str(tmp_path))


MEMINFO = "MemTotal: 9000 kB\nMemAvailable: 5000 kB\n"


def test_the_system_says_what_is_available(tmp_path):
    assert system(tmp_path, {"proc/meminfo": MEMINFO}) == 5000 * 1024
    assert memory.available_bytes(str(tmp_path / "elsewhere")) is None
    assert memory.available_bytes() > MIB


def test_a_control_group_of_version_2_leaves_less(tmp_path):
    group = "sys/fs/cgroup/jobs/one/"
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/jobs/one\n",
        group + "memory.max": "max\n",
        "sys/fs/cgroup/jobs/memory.max": "4000000\n",
        "sys/fs/cgroup/jobs/memory.current": "3000000\n",
        # 600,000 bytes hold files, 100,000 of which are shared memory.
        "sys/fs/cgroup/jobs/memory.stat": "anon 5\nfile 600000\nshmem 100000\n",
    }
    assert system(tmp_path, files) == 4000000 - 3000000 + 600000 - 100000
    more = {group + "memory.max": "2000000\n", group + "memory.current": "1900000\n"}
    assert system(tmp_path, more) == 100000
    assert system(tmp_path, {group + "memory.current": "2100000\n"}) == 0


def test_a_control_group_of_version_1_in_a_container(tmp_path):
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "5:cpu,cpuacct:/docker/a\n4:memory:/docker/a\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "1000000\n",
        "sys/fs/cgroup/memory/memory.stat": "total_cache 500000\ntotal_shmem 200000\n",
    }
    assert system(tmp_path, files) == 2300000
    unlimited = {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
    assert system(tmp_path, unlimited) == 5000 * 1024


# ----------------------------------------------------------------------- memory needs


@pytest.mark.parametrize(
    "make, synchroniser, replica, shared",
    [
        (None, tensorbow.SMA(), 1, 1),
        (momentum, tensorbow.SMA(), 2, 1),
        (momentum, "auto", 0, 2),
        (adam, tensorbow.SMA(), 3, 1),
        (adam, "auto", 0, 3),
        (adam, tensorbow.SSGD(), 0, 3),
        (momentum, tensorbow.SMA(centre="lagging"), 2, 2),
        (momentum, tensorbow.EASGD(), 2, 2),
        (momentum, tensorbow.SMA(ema_decay=0.9), 2, 2),
        (momentum, tensorbow.Independent(), 2, 0),
    ],
)
@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
def test_replicas_slots_and_the_central_model_are_counted(
    make, synchroniser, replica, shared, use_resource
):
    program = linear(use_resource, make, COLUMNS)
    with program.graph.as_default():
        tf1.get_variable("unused", [COLUMNS], use_resource=use_resource)
    trainable = [v.op.name for v in program.graph.get_collection("trainable_variables")]
    needs = memory.needs_of([program.train], trainable, synchroniser)
    # Besides w and its slots there are the step and Adam's powers of β.
    assert needs.replica_bytes - replica * BYTES in range(0, 17)
    assert needs.shared_bytes - shared * BYTES in range(0, 17)


# ------------------------------------------------------------------------- sessions


def test_too_many_learners_are_refused_with_numbers(monkeypatch):
    program = linear(True, momentum, COLUMNS)
    with session(program, learners_per_device=4) as s:
        # Four replicas with a slot and z are 9 · 0.25 MiB; two learners are 5 · 0.25 MiB.
        there(monkeypatch, 1.5 * MIB)
        for _ in range(2):
            with pytest.raises(tf.errors.ResourceExhaustedError) as error:
                step(program, s)
            text = str(error.value)
            assert "4 learners need 2.3 MiB beside what there is already" in text
            assert "512.0 KiB for each replica with its optimiser slots" in text
            assert "this process may use 1.5 MiB more" in text
            assert "Use Options(learners_per_device=2), a smaller model or more memory" in text
            assert "SSGD()" in text
        assert s.iterations == 0
        assert len(s.run(program.w)) == COLUMNS
        there(monkeypatch, 3 * MIB)
        step(program, s)
        assert (s.iterations, s.num_learners) == (1, 4)


def test_learners_that_share_one_copy_need_no_more_for_each(monkeypatch):
    program = linear(True, adam, COLUMNS)
    with session(program, learners_per_device=4, synchroniser="auto") as s:
        there(monkeypatch, 1 * MIB)  # one copy with two slots is 0.75 MiB
        step(program, s)
        assert (s.synchroniser, s.num_learners) == (tensorbow.SSGD(), 4)
    program = linear(True, adam, COLUMNS)
    with session(program, learners_per_device=4, synchroniser="auto") as s:
        there(monkeypatch, 0.5 * MIB)
        with pytest.raises(
            tf.errors.ResourceExhaustedError, match=r"768\.0 KiB for one copy of the model"
        ):
            step(program, s)


@pytest.mark.parametrize("seed", [None, 1])
def test_fewer_learners_where_their_number_is_open(seed, monkeypatch):
    monkeypatch.setattr(tensorbow.options, "cores", lambda: 4)
    program = linear(True, momentum, COLUMNS)
    with session(program, seed=seed) as s:
        there(monkeypatch, 1.5 * MIB)
        with pytest.warns(tensorbow.TensorBowWarning, match=FEWER):
            step(program, s)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            step(program, s)
        assert (s.iterations, s.num_learners, s.learning_tasks) == (2, 2, 4)
        assert not s.tunes_learners


def test_more_learners_later_are_refused_as_well(monkeypatch):
    program = linear(True, momentum, COLUMNS)
    with session(program, learners_per_device=2) as s:
        step(program, s)
        there(monkeypatch, 0.75 * MIB)
        # Two more replicas with their slots are 1 MiB.
        with pytest.raises(tf.errors.ResourceExhaustedError, match="2 more need 1.0 MiB"):
            s.set_learners(4)
        assert s.num_learners == 2
        s.set_learners(3)
        step(program, s)
        assert (s.iterations, s.num_learners) == (2, 3)


def test_a_lone_learner_has_a_replica_and_no_central_model(monkeypatch):
    for enough, expected in ((0.4, "1 learner needs 512.0 KiB"), (0.6, None)):
        program = linear(True, momentum, COLUMNS)
        there(monkeypatch, enough * MIB)
        with session(program, learners_per_device=1) as s:
            if expected is None:
                step(program, s)
                continue
            with pytest.raises(tf.errors.ResourceExhaustedError, match=expected) as error:
                step(program, s)
            assert "central model" not in str(error.value)


def test_one_learner_where_two_do_not_fit(monkeypatch):
    program = linear(True, momentum, COLUMNS)
    with session(program, seed=1) as s:
        s.set_learners(2)
        there(monkeypatch, 1.2 * MIB)  # two replicas with slots and z are 1.25 MiB
        with pytest.warns(tensorbow.TensorBowWarning, match=r"Use Options\(learners_per_device=1"):
            step(program, s)
        assert s.num_learners == 1


def test_runs_that_make_no_learners_are_not_asked(monkeypatch):
    program = linear(True, momentum, COLUMNS)
    there(monkeypatch, 1000)
    with session(program, learners_per_device=4) as s:
        assert len(s.run(program.w)) == COLUMNS
        s.run(program.w.initializer)


# ---------------------------------------------------------------------------- Keras


def network():
    return keras.Sequential([keras.Input((COLUMNS // 64,)), keras.layers.Dense(64, use_bias=False)])


def fit(optimiser="sgd", **options):
    options = tensorbow.Options(**options)
    with context.eager_mode():
        model = tensorbow.keras.replicate(network(), options)
        model.compile(optimiser, "mse")
        x = np.zeros((16, COLUMNS // 64), np.float32)
        model.fit(x, np.zeros((16, 64), np.float32), batch_size=8, verbose=0)
        return model, tensorbow.keras.session_of(model)


def test_a_keras_model_is_refused_with_numbers(monkeypatch):
    there(monkeypatch, 1 * MIB)
    # The session's copy, four replicas and z: 6 · 0.25 MiB.
    with pytest.raises(tf.errors.ResourceExhaustedError, match="4 learners need 1.5 MiB"):
        fit(learners_per_device=4, synchroniser=tensorbow.SMA())


def test_a_keras_model_has_fewer_learners_where_their_number_is_open(monkeypatch):
    monkeypatch.setattr(tensorbow.options, "cores", lambda: 4)
    there(monkeypatch, 1.1 * MIB)
    with pytest.warns(tensorbow.TensorBowWarning, match=FEWER):
        model, session = fit(synchroniser=tensorbow.SMA())
    assert model.num_learners == session.num_learners == 2
    assert (session.iterations, session.learning_tasks) == (2, 4)
    # Another compile() may allow more again.
    there(monkeypatch, 100 * MIB)
    with context.eager_mode():
        model.compile("sgd", "mse")
        assert model.num_learners == 4


def test_keras_learners_that_average_gradients_share_one_copy(monkeypatch):
    # The session's copy, and one for all learners, of the weights and two slots: 1.5 MiB.
    there(monkeypatch, 1.6 * MIB)
    _, session = fit("adam", learners_per_device=4)
    assert (session.num_learners, session.synchroniser) == (4, tensorbow.SSGD())
