"""Fakes that really do what they stand for: an index that serves, scripts that hang, crash or train nothing."""
