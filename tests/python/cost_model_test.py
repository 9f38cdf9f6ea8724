"""The cost model of several hosts, against numbers computed by hand."""

import dataclasses
import math

import pytest

from tensorbow.cli.plan import cost_model
from tensorbow.cli.plan.cost_model import (
    CHUNK_BYTES,
    Cluster,
    Exchange,
    Hierarchy,
    Host,
    Layer,
    Network,
    Ring,
    SumCosts,
    Task,
)
from tensorbow.cli.plan.sum_costs import fitted

# Two hosts with a core each. A sum takes 2 steps of 0.5 s and 1 s a chunk; of that a host
# computes 0.1 s a step and 0.25 s a chunk. Reports are so small that only their steps count.
COSTS = SumCosts(step=0.5, byte=1 / CHUNK_BYTES, step_work=0.1, byte_work=0.25 / CHUNK_BYTES)


def cluster(topology=Ring, learners=1, cores=1, memory=math.inf, network=None, hosts=2):
    return Cluster(Host(learners, cores, memory), topology(hosts), network or Network(), COSTS)


def task(forward):
    layers = Layer("last", 4.0, CHUNK_BYTES), Layer("first", 2.0, 2 * CHUNK_BYTES)
    return Task(forward, layers, rest=1.0)


def about(value):
    return pytest.approx(value, abs=1e-3)  # the bytes of reports


def test_a_vector_goes_round_the_ring_twice():
    # 3 parts of a quarter to be added up, 3 to be passed on.
    assert (Ring(4).steps(100), Ring(4).sent_bytes(100)) == (6, 150)
    assert (Ring(2).steps(100), Ring(2).sent_bytes(100)) == (2, 100)
    # Parts of 128 bytes: one; 128 and 64 bytes; two of 128.
    assert [Ring(2).messages(size) for size in (128, 192)] == [1, 2]
    assert [Ring(4).messages(size) for size in (256, 1 << 20)] == [3, 6]


def test_an_exchange_takes_one_step_or_two():
    # All give all to all; or a quarter to each, and the sum of an own quarter to each.
    short, long = 1 << 10, 1 << 20
    assert [Exchange(4).steps(size) for size in (short, long)] == [1, 2]
    assert [Exchange(4).messages(size) for size in (short, long)] == [3, 6]
    assert [Exchange(4).sent_bytes(size) for size in (short, long)] == [3 * short, 1.5 * long]
    assert (Exchange(2).steps(long), Exchange(2).messages(long)) == (1, 1)
    assert Exchange(2).sent_bytes(long) == Ring(2).sent_bytes(long) == long


def test_messages_of_a_step_are_made_one_after_the_other():
    # 2 steps of 0.5 s, 4 more messages of 0.1 s, and 6 quarters of 1 s.
    assert cluster(Exchange, hosts=4).sum_seconds(4 * CHUNK_BYTES) == about(1 + 0.4 + 6)
    assert cluster(Exchange, hosts=4).sum_work(4 * CHUNK_BYTES) == about(6 * 0.1 + 6 * 0.25)


def test_a_hierarchy_sends_as_much_in_fewer_messages():
    # In groups of 4: 3 + 3 messages inside; a quarter in 3 + 3 messages across the 4 groups.
    size = 16 << 20
    assert (Hierarchy(16, 4).steps(size), Hierarchy(16, 4).messages(size)) == (4, 12)
    assert Exchange(16).messages(size) == 30
    assert Hierarchy(16, 4).sent_bytes(size) == Exchange(16).sent_bytes(size) == 1.875 * size
    assert cost_model.squarest(4096) == Hierarchy(4096, 64)
    assert cost_model.squarest(7) in (Hierarchy(7, 1), Hierarchy(7, 7))
    with pytest.raises(ValueError, match="16 hosts are not groups of 5"):
        Hierarchy(16, 5)


def test_a_sum_takes_steps_and_bytes():
    assert cluster().sum_seconds(3 * CHUNK_BYTES) == about(2 * 0.5 + 3)
    assert cluster().sum_work(3 * CHUNK_BYTES) == about(2 * 0.1 + 3 * 0.25)
    # The slower one counts: 2 s a chunk on the network, 1 s for the software.
    slow = Network(latency=0.25, bandwidth=CHUNK_BYTES / 2)
    assert cluster(network=slow).sum_seconds(3 * CHUNK_BYTES) == about(2 * 0.75 + 6)


def test_averaged_models_hide_behind_the_forward_pass():
    # 17 s of computation. Work: 0.2 s for the report, 3 chunks of 0.2 + 0.25 s.
    found = cost_model.averaged_models(task(forward=10), cluster())
    assert (found.seconds, found.work, found.waiting) == (about(18.55), about(1.55), 0)
    # The sum takes 4 s, of which 1 + 1.55 s hide.
    found = cost_model.averaged_models(task(forward=1), cluster())
    assert (found.seconds, found.work, found.waiting) == (about(11), about(1.55), about(1.45))


def test_hosts_with_idle_cores_share_the_work():
    found = cost_model.averaged_models(task(forward=10), cluster(learners=2, cores=2))
    assert found.work == about(1.55 / 2)
    # 3 chunks are read or written twice more, a lone learner's five times.
    slow = cluster(learners=2, cores=2, memory=6 * CHUNK_BYTES)
    assert cost_model.averaged_models(task(10), slow).work == about(1.55 / 2 + 1)
    slow = cluster(memory=6 * CHUNK_BYTES)
    assert cost_model.averaged_models(task(10), slow).work == about(1.55 + 2.5)


def test_averages_now_and_then_cost_their_share():
    # In between a report of 1 s, which hides, and its work of 0.2 s: 8.2 s; else 11 s.
    found = cost_model.averaged_models(task(forward=1), cluster(), period=2)
    assert found.seconds == about((8.2 + 11) / 2)
    assert found.waiting == about(1.45 / 2)
    found = cost_model.averaged_models(task(forward=1), cluster(), period=4)
    assert found.seconds == about((3 * 8.2 + 11) / 4)


def test_an_iteration_that_sums_interrupt_loses_as_much_once():
    costs = dataclasses.replace(COSTS, interruption=0.25)
    interrupted = dataclasses.replace(cluster(cores=2), costs=costs)
    for period in (1, 2):
        one, other = (
            cost_model.averaged_models(task(forward=10), c, period)
            for c in (cluster(cores=2), interrupted)
        )
        assert other.work - one.work == about(0.25 / 2)
    one, other = (
        cost_model.averaged_gradients(task(forward=10), c) for c in (cluster(cores=2), interrupted)
    )
    assert other.work - one.work == about(0.25 / 2)


def test_gradients_leave_while_back_propagation_goes_on():
    # The first chunk is there at 5 s and occupies the network until 6, the others at 7, until
    # 8 and 9; the last comes 1 s of steps later. After it the update, which is in the layers,
    # and 1 s for the rest.
    found = cost_model.averaged_gradients(task(forward=1), cluster())
    assert (found.seconds, found.work, found.waiting) == (about(11), about(1.55), about(1.45))
    # 7 s of computation and 6 of work by 5 cores... the work is done before the last chunk comes.
    found = cost_model.averaged_gradients(task(forward=1), cluster(cores=5))
    assert found.seconds == about(11)
    # If the network takes no time, a vote is awaited, and all work is done before the update.
    fast = Cluster(Host(1, 1, math.inf), Ring(2), Network(), SumCosts(0.5, 0, 1, 0))
    assert cost_model.averaged_gradients(task(forward=1), fast).seconds == about(7 + 4 * 2 + 1)


def test_chunks_that_do_not_meet_are_as_in_the_paper():
    # Each chunk's second is over before the next is there.
    layers = tuple(Layer(str(i), 3.0, CHUNK_BYTES) for i in range(3))
    apart = cost_model.averaged_gradients(Task(0.0, layers), cluster(cores=1000))
    half = [0.5 + 0.5] * 3  # a half of a sum's second and of its steps
    assert apart.seconds == about(cost_model.chunked_seconds([3.0] * 3, [0] * 3, half, half))


def test_reductions_in_the_background_and_after_back_propagation():
    # T_1 = 4 + 0.5 + 1 + 1 = 6.5; T_2 = 4.5 + 2.5 + 3 + 1 = 11.
    assert cost_model.chunked_seconds([4, 2], [0.5, 0.5], [1, 3], [1, 1]) == 11
    # T_1 = 4.5 + 9 + 1 = 14.5 is later than T_2 = 7 + 1 + 1.
    assert cost_model.chunked_seconds([4, 2], [0.5, 0.5], [9, 1], [1, 1]) == 14.5
    # 4 + 2 + (1 + 1) + (3 + 1)
    assert cost_model.plain_seconds([4, 2], [1, 3], [1, 1]) == 12
    # 1 + 6 + 3 chunks of 2 s, one after the other, + 1
    assert cost_model.plain_data_parallel(task(forward=1), cluster()).seconds == about(14)


def test_one_host_waits_for_nobody():
    alone = cluster(hosts=1)
    for predict in (
        cost_model.averaged_models,
        cost_model.averaged_gradients,
        cost_model.plain_data_parallel,
    ):
        assert predict(task(forward=1), alone) == cost_model.Prediction(8.0, 0.0, 0.0)


def test_a_task_keeps_its_proportions():
    scaled = task(forward=1).scaled_to(16)
    assert (scaled.forward, scaled.rest, scaled.seconds) == (2, 2, 16)
    assert [layer.seconds for layer in scaled.layers] == [8, 4]
    assert scaled.size_bytes == 3 * CHUNK_BYTES


def test_costs_are_those_that_explain_the_measured_sums():
    # Two hosts: a step, and as many bytes sent as the vector has.
    measured = {n: (3e-5 + n * 1e-9, 1e-5 + n * 2e-9) for n in (1024, 65536, 4194304)}
    costs = fitted(measured)
    assert costs.step == pytest.approx(3e-5)
    assert costs.byte == pytest.approx(1e-9)
    assert costs.step_work == pytest.approx(1e-5)
    assert costs.byte_work == pytest.approx(2e-9)
    # Large sums that are as fast as small ones: bytes cost nothing, rather than less.
    flat = fitted({1024: (1e-3, 1e-3), 1 << 20: (0.9e-3, 0.9e-3)})
    assert (flat.byte, flat.byte_work) == (0, 0)
    assert flat.step == pytest.approx(0.945e-3, rel=0.01)
