"""The benchmark that compares with other systems, without them."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))

import peers
from contenders import Contender
from interleave import Process, ProcessEndedError


def found(**speeds):
    every = {name: [2.0, 4.0] for name in [peers.STOCK, *peers.COLUMNS]}
    return {"samples_per_second": every | speeds, "learners": 2, "parameters": 7}


def test_the_faster_layout_of_pytorch_counts():
    slower, faster = [1.0, 2.0], [6.0, 12.0]
    row = found(**{peers.TORCH: slower, peers.TORCH + peers.CHANNELS_LAST: faster})
    assert peers.ratios(row, peers.TORCH) == [3.0, 3.0]
    assert peers.ratios(row, peers.TORCH_DISTRIBUTED) == [1.0, 1.0]


def test_both_layouts_are_tried_for_images_only():
    def layouts(name):
        names = [c.name for c in peers.contenders(name)]
        return sum(name.endswith(peers.CHANNELS_LAST) for name in names)

    assert [layouts(n) for n in ("LeNet 32", "logistic 32")] == [2, 0]
    assert len(peers.COMPARED) >= 9


def test_a_mirrored_strategy_trains_every_replicas_share(warm_python):
    contender = Contender("mirrored", "mirrored_network", 32)
    process = Process(contender, "logistic 32")
    assert process.seconds(3) > 0
    assert process.value() == 7850
    process.end()


def test_networks_that_differ_are_refused(monkeypatch):
    class Counts:
        def __init__(self, contender, model):
            self._count = 8 if contender.name == peers.JAX else 7

        def wait_until_ready(self):
            pass

        def calibrate(self, seconds):
            pass

        def value(self):
            return self._count

    monkeypatch.setattr(peers, "Process", Counts)
    with pytest.raises(peers.DifferentNetworksError, match="'JAX, jit': 8"):
        peers.measure("logistic 32", slices=1, seconds=0.0)


def test_a_missing_environment_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "PYTHON", tmp_path / "bin/python")
    with pytest.raises(SystemExit, match="make peers"):
        peers.main()


def test_networks_of_pytorch_and_jax_are_those_of_the_table():
    assert set(peers.peers_torch.MODELS) == set(peers.peers_jax.MODELS) == set(peers.COMPARED)
    for name in peers.COMPARED:
        rows = peers.NETWORKS[name].rows
        feeds = peers.NETWORKS[name].feeds(np.random.default_rng(0), rows)
        assert all(len(part) == rows for part in feeds)


def test_contenders_of_other_systems_need_no_tensorflow():
    program = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "import interleave, contenders\n"
        "for name in ('torch_network', 'torch_distributed', 'jax_network'):\n"
        "    print(contenders.maker(name).__name__)"
    )
    benchmarks = str(pathlib.Path(peers.__file__).parent)
    names = subprocess.run(
        [sys.executable, "-c", program], cwd=benchmarks, check=True, capture_output=True, text=True
    ).stdout.split()
    assert names == ["torch_network", "torch_distributed", "jax_network"]


def test_a_contender_that_ends_says_why():
    process = Process(Contender("X", "nothing", 1), "logistic")
    with pytest.raises(ProcessEndedError, match="X ended with 1\n(.*\n)*.*'nothing'"):
        process.wait_until_ready()
