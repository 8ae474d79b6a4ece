"""Tests of the room ``night``."""
