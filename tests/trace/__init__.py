"""Tests of the room ``trace``."""
