"""A script whose import needs a module that nobody has."""

from __future__ import annotations

import importlib

importlib.import_module("a_module_that_nobody_has")
