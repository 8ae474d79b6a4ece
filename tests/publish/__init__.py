"""Tests of the room ``publish``."""
