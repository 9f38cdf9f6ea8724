"""Whatever a program is and does, its session computes what stock sessions and NumPy do.

`TENSORBOW_FUZZ=10000` draws so many histories at random, within `TENSORBOW_FUZZ_SECONDS`;
without it the same few are drawn every time.
"""

import os
import time

import hypothesis

from tests.oracle import strategies

FUZZ = int(os.environ.get("TENSORBOW_FUZZ", 0))
SECONDS = float(os.environ.get("TENSORBOW_FUZZ_SECONDS", 1800 if FUZZ else 120))
END = time.monotonic() + SECONDS
HISTORIES = FUZZ or 60

settings = hypothesis.settings(
    max_examples=HISTORIES,
    derandomize=not FUZZ,
    database=None,
    deadline=None,
    print_blob=False,
    suppress_health_check=list(hypothesis.HealthCheck),
)


@settings
@hypothesis.given(strategies.case())
def test_every_history_is_that_of_stock_sessions_and_numpy(case):
    if time.monotonic() > END:
        return
    hypothesis.note(f"As a test: {case!r}.check()")
    case.check()
