"""A script whose import ends the process."""

from __future__ import annotations

import os
import signal

os.kill(os.getpid(), signal.SIGSEGV)
