"""A script whose import raises."""

from __future__ import annotations

raise RuntimeError("no import today")
