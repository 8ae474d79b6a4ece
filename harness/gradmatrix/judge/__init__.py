"""From an observation to an outcome, a cause and a remedy: pure functions."""
