"""What the observer puts into torch, and how it steps aside for torch.compile.

These are functions in the place of torch's own, and global hooks. The compiler reads all that runs,
so it would compile another program than the script's, or fail. So everything is away while compiled
code runs in any thread: while it is traced, while its guards are checked, and in the parts between
its graphs. Functions that the script keeps out of compiled code are watched.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from typing import Any, Callable, Dict, Iterator, Tuple

MISSING = object()
_numbers = itertools.count()
_placed: Dict[int, Tuple[Callable[[], object], Callable[[], object]]] = {}
"""How to put each thing in, and how to take it out, in the order in which they were put in."""
_lock = threading.RLock()
_running = 0
"""In how many threads compiled code runs, or everything is away for another reason."""


def replace(owner: Any, name: str, new: Any) -> Callable[[], None]:
    """Put ``new`` in the place of the attribute ``owner.name``. The returned function undoes that.

    What the script has put there itself stays.
    """
    return replace_all(owner, {name: new})


def replace_all(owner: Any, new: Dict[str, Any]) -> Callable[[], None]:
    """Put each of ``new`` in the place of the attribute of its name, as :func:`replace` does."""
    namespace = owner.__dict__
    originals = {name: namespace.get(name, MISSING) for name in new}

    def put() -> None:
        for name, each in new.items():
            if namespace.get(name, MISSING) is originals[name]:
                setattr(owner, name, each)

    def take() -> None:
        for name, each in new.items():
            if namespace.get(name) is not each:
                continue
            if originals[name] is MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, originals[name])

    return _place(put, take)


def hook(register: Callable[[Any], Any], function: Any) -> Callable[[], None]:
    """Register a global hook. The returned function removes it."""
    handle = register(function)
    hooks = handle.hooks_dict_ref()
    return _place(lambda: hooks.update({handle.id: function}), lambda: hooks.pop(handle.id, None))


def _place(put: Callable[[], object], take: Callable[[], object]) -> Callable[[], None]:
    number = next(_numbers)
    with _lock:
        _placed[number] = put, take
        (take if _running else put)()

    def undo() -> None:
        with _lock:
            if _placed.pop(number, None) is not None and not _running:
                take()

    return undo


def step_aside() -> None:
    """From now on everything is away while compiled code runs, and no code of ours is compiled.

    The compiler must be imported while everything is away: it knows functions by identity.
    """
    from torch._C._dynamo import eval_frame as native
    from torch._dynamo import eval_frame

    original = native.set_eval_frame
    if getattr(original, "__module__", None) == __name__:
        return
    try:  # torch 2.0 to 2.2
        from torch._dynamo import skipfiles as rules
    except ImportError:
        from torch._dynamo import trace_rules as rules
    rules.add(__package__)

    def set_eval_frame(callback: Any) -> Any:
        if callable(callback):
            _change(+1)  # before our own code would be compiled
        before = original(callback)
        if callable(before):
            _change(-1)
        return before

    running = original(None)
    original(running)
    if callable(running):
        _change(+1)
    for owner in (native, eval_frame):
        for name in ("set_eval_frame", "_maybe_set_eval_frame"):
            if getattr(owner, name, None) is original:
                setattr(owner, name, set_eval_frame)


def step_aside_before(function: Any) -> None:
    """Step aside if calling ``function`` imports torch.compile, or if it is imported.

    Since torch 2.2 the first optimizer imports it: some functions keep themselves uncompiled.
    """
    if not compiler_is_there() and function.__code__.co_filename.endswith("_compile.py"):
        with aside():
            import torch._dynamo  # noqa: F401
    if compiler_is_there():
        step_aside()


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """A context in which everything is away."""
    _change(+1)
    try:
        yield
    finally:
        _change(-1)


def _change(by: int) -> None:
    """Everything is to be away for one more reason, or for one less."""
    global _running
    with _lock:
        before, _running = _running, _running + by
        if not before:
            for _, take in reversed(list(_placed.values())):
                take()
        elif not _running:
            for put, _ in list(_placed.values()):
                put()


def compiler_is_there() -> bool:
    """Whether torch.compile was imported already, which takes seconds."""
    return "torch._dynamo.eval_frame" in sys.modules
