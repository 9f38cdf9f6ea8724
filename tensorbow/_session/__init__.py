"""The parts of sessions: plans of runs, learners, memory, saved states."""
