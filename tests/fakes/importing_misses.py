"""A script whose import needs a module that does not exist."""

from __future__ import annotations

import importlib

importlib.import_module("a_module_that_nobody_has")
