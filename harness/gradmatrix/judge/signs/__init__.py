"""The signs by which a diagnosis is made, by what went wrong. ``diagnosis.py`` has their order."""
