"""Tests mirror the modules; what is tested against lies in fakes/."""
