"""Every tensor of a learning run has its row type, executed whole and in shards.

In CI a fixed selection, once. `TENSORBOW_FUZZ=1` executes all runs at hand, with three seeds,
within `TENSORBOW_FUZZ_SECONDS`, and prints how many tensors were compared.
"""

import pytest

from tests import fuzz
from tests.row_types import adversarial, capture
from tests.row_types.report import Count, line_of
from tests.row_types.verify import verify

SEEDS = (0, 1, 2) if fuzz.FUZZ else (0,)
budget = fuzz.Budget()

# Each has ops that the others lack.
PROGRAMS = ["cond", "cnn", "coordinate_feeds", "gan", "gradient_clipping", "while_loop"]
NETWORKS = ["LeNet 32", "transformer block 16×64"]
KERAS = ["network, adam", "clipped"]
DRAWN = 6

# Losses that are typed in full, with their exchanges; the others name an op.
EXACT = ["a mean", "a sum", "a mean and a sum", "softmax of rows", "masked mean", "layer norm"]
MIXING = ["gram", "running sum", "hard examples", "reversed", "rows in pairs", "shuffled"]


def corpora():
    """Returns the functions that make runs, by name."""
    if fuzz.FUZZ:
        return capture.corpora()
    return {
        "adversarial": lambda: adversarial.runs(every=3),
        "keras": lambda: capture.keras_models(KERAS),
        "networks": lambda: capture.networks(NETWORKS),
        "oracle": lambda: capture.oracle(DRAWN),
        "grammar": lambda: capture.grammar(DRAWN),
        "programs": lambda: capture.programs(PROGRAMS),
    }


@pytest.mark.parametrize("corpus", list(corpora()))
def test_every_tensor_is_what_its_type_says(corpus, capsys):
    count, wrong = Count(), []
    for run in corpora()[corpus]():
        for seed in SEEDS:
            if fuzz.FUZZ and budget.is_spent():
                break
            outcome = verify(run, seed)
            count.add(outcome)
            wrong += [f"{run.name}, seed {seed}: {where}" for where in outcome.wrong]
    with capsys.disabled():
        print(f"\n{line_of(corpus, count)}")
    assert not wrong, "\n".join(wrong[:20])
    assert count.tensors > 100


@pytest.mark.parametrize("name", EXACT)
def test_a_loss_that_does_not_mix_rows_is_typed(name):
    assert adversarial.run_of(name, adversarial.LOSSES[name]).types()["unknown"] is None


@pytest.mark.parametrize("name", MIXING)
def test_a_loss_that_mixes_rows_names_the_op(name):
    run = adversarial.run_of(name, adversarial.LOSSES[name])
    unknown = run.types(gathers=False)["unknown"]
    assert unknown is not None and all(unknown)
