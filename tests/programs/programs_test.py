"""Programs as people wrote them run as well on learners as on stock sessions.

`make test` trains with one seed. Its noise is the spread of stock's results over all seeds, which
the table has. `TENSORBOW_FUZZ=1` trains with all seeds.
"""

import pytest

from tests import fuzz
from tests.programs import _harness, _judgement, table


@pytest.mark.parametrize("name", _judgement.names())
def test_one_learner_is_stock_and_two_are_as_good(name):
    if missing := _harness.missing_packages(name):
        pytest.skip(f"{', '.join(missing)} not installed (tools/requirements.txt)")
    known = table.rows()[name]
    if fuzz.FUZZ:
        result = _harness.compare(name)
        noise = result.noise
    else:
        result = _harness.compare(name, seeds=_harness.SEEDS[:1])
        noise = result.quality.noise(table.stock(known))
    assert not result.differences
    assert result.worse_by <= noise, (result.stock, result.several)
    # The table names the learners that trained, and the reason.
    assert table.trained_by(table.row(name, result)) == table.trained_by(known)


def test_as_many_learners_train_as_are_asked_for():
    ran = _harness.run("learning_rate_feed", seed=1, learners=4)
    assert ran.learners == "4 learners"
    assert ran.learning_tasks == 4 * ran.iterations


def test_file_is_what_the_generator_writes_of_exactly_the_programs():
    rows = table.rows()
    assert list(rows) == _judgement.names()
    assert table.FILE.read_text() == table.text(rows)
