"""The simulation of many hosts, against the cost model and by hand."""

import math
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))

import scaling

from tensorbow.cli.plan import cost_model
from tensorbow.cli.plan.cost_model import (
    CHUNK_BYTES,
    Cluster,
    Host,
    Layer,
    Network,
    Ring,
    SumCosts,
    Task,
)

COSTS = SumCosts(step=0.5, byte=1 / CHUNK_BYTES, step_work=0.1, byte_work=0.25 / CHUNK_BYTES)
TASK = Task(1.0, (Layer("last", 4.0, CHUNK_BYTES), Layer("first", 2.0, 2 * CHUNK_BYTES)), 1.0)


def ring(hosts, costs=COSTS):
    return Cluster(Host(2, 2, math.inf), Ring(hosts), Network(), costs)


@pytest.mark.parametrize("hosts", [2, 64])
@pytest.mark.parametrize("period", [1, 8])
def test_hosts_that_are_equally_fast_are_as_predicted(hosts, period):
    even = np.ones((scaling.ITERATIONS, hosts))
    seconds = scaling.simulate_models(TASK, ring(hosts), period, even)
    predicted = cost_model.averaged_models(TASK, ring(hosts), period).seconds
    assert seconds == pytest.approx(predicted, rel=2 * period / scaling.ITERATIONS)
    gradients = cost_model.averaged_gradients(TASK, ring(hosts)).seconds
    assert scaling.simulate_gradients(TASK, ring(hosts), even) == pytest.approx(gradients)


def test_a_host_that_is_late_delays_the_others_by_what_their_forward_pass_does_not_hide():
    free = SumCosts(0, 0, 0, 0)
    # Tasks of 8 s, 1 s of it forward; in turn, one of two hosts takes 1.25 times as long.
    #   0: hosts end at 10 and 8.
    #   1: host 0 continues at once and ends at 18; host 1 completes its forward pass at 9.25,
    #      waits until 10 and ends at 10 + 1.25 * 7 = 18.75.
    #   2: host 0 ends its forward pass at 19.25, after 18.75, and all at 28; host 1 at 26.75.
    pace = np.array([[1.25, 1.0], [1.0, 1.25], [1.25, 1.0]])
    assert scaling.simulate_models(TASK, ring(2, free), 1, pace[:1]) == 10
    assert scaling.simulate_models(TASK, ring(2, free), 1, pace[:2]) == pytest.approx(18.75 / 2)
    assert scaling.simulate_gradients(TASK, ring(2, free), pace) == pytest.approx(10)
    assert scaling.simulate_models(TASK, ring(2, free), 1, pace) == pytest.approx(28 / 3)


def test_draws_are_relative_to_the_median():
    pace = scaling.paces([1.0, 2.0, 4.0], hosts=5)
    assert pace.shape == (scaling.ITERATIONS, 5)
    assert set(pace.ravel()) == {0.5, 1.0, 2.0}
