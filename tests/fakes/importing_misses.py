"""A script whose import needs a module that nobody has."""

from __future__ import annotations

import a_module_that_nobody_has  # noqa: F401
