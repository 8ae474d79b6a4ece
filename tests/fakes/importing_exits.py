"""A script whose import leaves the process."""

from __future__ import annotations

import os

os._exit(3)
