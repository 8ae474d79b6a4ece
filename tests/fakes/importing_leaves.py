"""A script whose import raises SystemExit."""

from __future__ import annotations

import sys

sys.exit("this library wants a display")
