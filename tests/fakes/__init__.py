"""Fakes that really do what they are named for: serve an index, hang, crash or train nothing."""
