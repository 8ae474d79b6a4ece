"""Where in the script or in a library something happened.

These are Python frames without those of torch, the interpreter's helpers and this package.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Set, Tuple

from . import machine

if TYPE_CHECKING:
    from types import CodeType, FrameType

KEPT = 10
HERE = os.path.dirname(os.path.abspath(__file__))
PLUMBING = ("contextlib.py", "functools.py", "runpy.py", "warnings.py", "_py_warnings.py")
LIBRARIES = ("site-packages" + os.sep, "dist-packages" + os.sep, f"{os.sep}lib{os.sep}python")
_shown: Dict[str, Optional[str]] = {}
"""The part of a file's path that is shown; None if its frames are left out."""
_mine: Dict[str, bool] = {}
Lines = Tuple[Tuple["CodeType", int], ...]
"""A line, and the line of the user that led there, if it is another one."""


def shown(path: str) -> Optional[str]:
    """The part of ``path`` that a record may contain; None if its frames are left out.

    Frames of torch, of this package and of the interpreter's helper modules are left out.
    """
    if path not in _shown:
        short = machine.short_path(path)
        skipped = (
            path.startswith((HERE, "<frozen"))
            or short.startswith("torch" + os.sep)
            or (short.startswith("python") and os.path.basename(short) in PLUMBING)
        )
        _shown[path] = None if skipped else short
    return _shown[path]


def mine(path: str) -> bool:
    """Whether ``path`` is the user's own: outside site-packages and the standard library."""
    if path not in _mine:
        _mine[path] = shown(path) is not None and not (
            path.startswith("<") or any(folder in path for folder in LIBRARIES)
        )
    return _mine[path]


def visible(frame: Optional[FrameType]) -> Optional[FrameType]:
    """The innermost frame from ``frame`` outwards that is not left out."""
    while frame is not None and shown(frame.f_code.co_filename) is None:
        frame = frame.f_back
    return frame


def plumbing(frame: FrameType) -> bool:
    """Whether ``frame`` belongs to torch, the observer or a helper of the interpreter."""
    return shown(frame.f_code.co_filename) is None


def here() -> Optional[Lines]:
    """The innermost visible line at this moment and the user's line that led there.

    It costs little; :func:`line` makes facts of it.
    """
    frame = visible(sys._getframe(1))
    if frame is None:
        return None
    innermost, user = (frame.f_code, frame.f_lineno), users(frame)
    if user is None or user is frame:
        return (innermost,)
    return (innermost, (user.f_code, user.f_lineno))


def line(at: Optional[Lines]) -> List[Dict[str, Any]]:
    """The result of :func:`here` as a list of frames, innermost first."""
    return [{**place(code), "line": number} for code, number in at or ()]


def users(frame: Optional[FrameType]) -> Optional[FrameType]:
    """The innermost frame from ``frame`` outwards that is in a file of the user."""
    while frame is not None and not mine(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def of_user(found: List[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """The first of some frames that is in a file of the user; None if none is."""
    return next((each for each in found if each["user"]), None)


def of_error(error: BaseException) -> List[Dict[str, Any]]:
    """The visible frames of an exception, innermost first."""
    found, at = [], error.__traceback__
    while at is not None:
        if shown(at.tb_frame.f_code.co_filename) is not None:
            found.append({**place(at.tb_frame.f_code), "line": at.tb_lineno})
        at = at.tb_next
    found.reverse()
    user = of_user(found)
    return found[:KEPT] + ([user] if user is not None and user not in found[:KEPT] else [])


def variables(error: BaseException, *, of_user: bool = False) -> Iterator[Dict[str, Any]]:
    """The variables of the functions on the traceback of ``error``, the outermost first."""
    at = error.__traceback__
    while at is not None:
        if not of_user or mine(at.tb_frame.f_code.co_filename):
            yield at.tb_frame.f_locals
        at = at.tb_next


def frames(start: Optional[FrameType] = None) -> List[Dict[str, Any]]:
    """The visible frames from ``start`` (default: the caller) outwards, innermost first.

    The innermost frame of the user is the last one if it is further out than the others.
    """
    found: List[Dict[str, Any]] = []
    frame = visible(start or sys._getframe(1))
    while frame is not None and len(found) < KEPT:
        found.append({**place(frame.f_code), "line": frame.f_lineno})
        frame = visible(frame.f_back)
    user = None if of_user(found) else users(frame)
    if user is not None:
        found.append({**place(user.f_code), "line": user.f_lineno})
    return found


def outside(frame: Optional[FrameType], built: Any) -> Optional[FrameType]:
    """The innermost visible frame from ``frame`` outwards that is no constructor of ``built``.

    No frame is asked for its variables: until Python 3.12 that keeps them alive, and adds them to
    what the function got from ``locals()`` before.
    """
    own = constructors(type(built))
    frame = visible(frame)
    while frame is not None and frame.f_code in own:
        frame = visible(frame.f_back)
    return frame


def constructors(kind: type) -> Set[CodeType]:
    """The code of the constructors of a class and of those that it inherits from."""
    found: Set[CodeType] = set()
    for each in kind.__mro__:
        function: Any = vars(each).get("__init__")
        while function is not None:
            found.update(filter(None, [getattr(function, "__code__", None)]))
            function = getattr(function, "__wrapped__", None)
    return found


def calls(frame: Optional[FrameType]) -> Iterator[Any]:
    """The modules whose call is on the stack of ``frame``, the innermost first."""
    while frame is not None:
        if frame.f_code.co_name == "_call_impl":
            yield frame.f_locals.get("self")
        frame = frame.f_back


def named_arguments(frame: Optional[FrameType]) -> Dict[str, Any]:
    """The keyword arguments of the innermost call of a module on the stack of ``frame``."""
    while frame is not None and frame.f_code.co_name != "_call_impl":
        frame = frame.f_back
    found: Dict[str, Any] = frame.f_locals.get("kwargs", {}) if frame is not None else {}
    return found


def place(code: CodeType) -> Dict[str, Any]:
    """Where ``code`` begins; for a decorated function that is its first decorator."""
    return {
        "file": shown(code.co_filename) or machine.short_path(code.co_filename),
        "line": code.co_firstlineno,
        "function": code.co_name,
        "user": mine(code.co_filename),
    }


def written(function: Any) -> Optional[Dict[str, Any]]:
    """Where a function, method or partial was written; wrappers of torch are looked through."""
    for _ in range(20):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is not None and shown(code.co_filename) is not None:
            return place(code)
        inner = getattr(function, "__wrapped__", None) or getattr(function, "func", None)
        if inner is None:
            return None if code is None else place(code)
        function = inner
    return None


def own_place(function: Any) -> Optional[Dict[str, Any]]:
    """Where a function was written; None if torch wrote it."""
    at = written(function)
    return None if at is None or at["file"].startswith("torch" + os.sep) else at
