"""Sessions compute the same as stock sessions and NumPy, for any program and history.

`TENSORBOW_FUZZ=10000` draws this many histories at random, within `TENSORBOW_FUZZ_SECONDS`; without
it the same few are drawn every time.
"""

import hypothesis

from tests import fuzz
from tests.oracle import strategies

budget = fuzz.Budget()


@fuzz.settings(40)
@hypothesis.given(strategies.case())
def test_every_history_is_that_of_stock_sessions_and_numpy(case):
    if budget.is_spent():
        return
    hypothesis.note(f"As a test: {case!r}.check()")
    case.check()
