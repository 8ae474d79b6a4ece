"""What the stack says: the warnings module and every logger, from level WARNING on."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from typing import Any, Callable, Dict, List, Tuple

from . import frames, machine, severing

KEPT = 40
"""How many different messages are kept, beside those that speak of gradients."""
OF_GRADIENTS = re.compile(r"grad|frozen|trainable|learning[ _]rate", re.IGNORECASE)
OURS = "global hooks on modules"
"""Said by torch.compile because of the observer's hooks: neither the script's nor for its user."""
MESSAGE_LIMIT = 600


class MessageWatch:
    """Listens; whatever would have been printed is still printed, and what a filter hides stays hidden."""

    def __init__(self) -> None:
        self._counts: Dict[Tuple[str, str], int] = {}

    def install(self) -> Callable[[], None]:
        """Listen from now on; the returned function stops that."""
        show, handle = warnings.showwarning, logging.Logger.handle

        def showwarning(message: Any, category: Any, *args: Any, **kwargs: Any) -> None:
            if OURS in str(message):
                return
            if args and str(args[0]).startswith(frames.HERE):
                again(message, category)
                return
            self._add(category.__name__, str(message))
            show(message, category, *args, **kwargs)

        def handled(logger: logging.Logger, record: logging.LogRecord) -> Any:
            if record.levelno >= logging.WARNING and not logger.disabled:
                try:
                    self._add(f"log:{record.name}", record.getMessage())
                except Exception:  # a broken format string of the library's own
                    self._add(f"log:{record.name}", str(record.msg))
            return handle(logger, record)

        warnings.showwarning = showwarning
        logging.Logger.handle = handled  # type: ignore[method-assign,assignment]

        def undo() -> None:
            warnings.showwarning = show
            logging.Logger.handle = handle  # type: ignore[method-assign]

        return undo

    def _add(self, category: str, message: str) -> None:
        key = category, machine.without_local_paths(message)[:MESSAGE_LIMIT]
        if key in self._counts or len(self._counts) < KEPT or OF_GRADIENTS.search(message):
            self._counts[key] = self._counts.get(key, 0) + 1

    def facts(self) -> List[Dict[str, Any]]:
        """Each message once, with its count, in the order of its first appearance."""
        return [{"category": c, "message": m, "count": n} for (c, m), n in self._counts.items()]


def again(message: Any, category: Any) -> None:
    """Warn once more, in the name of the line that called what is watched: it was at work, not the observer."""
    vars(severing).get("__warningregistry__", {}).clear()
    frame = frames.visible(sys._getframe(2))
    if frame is not None:
        known = frame.f_globals.setdefault("__warningregistry__", {})
        name = frame.f_globals.get("__name__") or "<unknown>"
        warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, name, known)
