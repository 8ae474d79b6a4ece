"""Tests of the room ``stacks``."""
