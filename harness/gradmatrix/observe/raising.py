"""What the exception that ended the script is about: an object or a line behind torch's message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Set

from . import source
from .frames import line, shown, variables, written
from .torches import held_by

if TYPE_CHECKING:
    from .forward import ForwardWatch
    from .parameters import ParameterWatch
    from .switches import Switch

RETURNED = re.compile(r"unction (\w+)Backward returned an (?:invalid gradient|incorrect number)")
NO_DERIVATIVE = re.compile(r"derivative for (?:aten::)?floor_divide is not implemented")
SPARSE = re.compile(r"sparse gradients")
NO_LOSS = re.compile(r"did not return a loss from the inputs.*the inputs it received are (.*?)\.?$")
IDLE = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")
DISTRIBUTED = ("DistributedDataParallel", "DDP")
LENGTH = re.compile(r"max_(?:\w+_)?len(?:gth)?")
NUMBER = re.compile(r"[\d.]+(?:e[+-]?\d+)?", re.IGNORECASE)
AS_TEXT = re.compile(r"between instances of .*'str'")
UNCHECKED = "No inf checks were recorded"
INFERENCE = re.compile(r"nference tensor")
SHOWN = 4


def culprit(
    error: BaseException,
    forward: ForwardWatch,
    optimizers: List[Any],
    parameters: ParameterWatch,
    passes: int,
) -> Optional[Dict[str, Any]]:
    """What the exception is about, and where it stands; None if that is not known.

    Backward was called ``passes`` times before.
    """
    message, names_of = str(error), parameters.names_of
    returned, no_loss = RETURNED.search(message), NO_LOSS.search(message)
    if returned is not None:
        return custom(returned.group(1))
    if NO_DERIVATIVE.search(message) and forward.severing.floored is not None:
        return {"kind": "operation", "text": "//", "frames": line(forward.severing.floored)}
    if INFERENCE.search(message):
        return inference(forward.switches.log)
    if SPARSE.search(message):
        return sparse(optimizers, names_of)
    if no_loss is not None:
        return left_out(error, set(re.split(r",\s*", no_loss.group(1))))
    return (
        unchecked(error, forward, parameters, passes)
        or emptied(error)
        or as_text(error)
        or idle(error, names_of)
    )


def as_text(error: BaseException) -> Optional[Dict[str, Any]]:
    """A number that an optimizer of torch got as a text, as from a file of settings."""
    import torch

    *_, last = [{}, *variables(error)]
    if AS_TEXT.search(str(error)) and isinstance(last.get("self"), torch.optim.Optimizer):
        for name, value in last.items():
            if isinstance(value, str) and NUMBER.fullmatch(value):
                return {"kind": "text", "text": f"{name}={value!r}", "frames": []}
    return None


def custom(name: str) -> Optional[Dict[str, Any]]:
    """The last line of the backward of a torch.autograd.Function of this name."""
    import torch

    for each in subclasses(torch.autograd.Function):
        at = last_line(each.backward) if each.__name__ == name else None
        if at is not None:
            return {"kind": "function", "text": name, "frames": [at]}
    return None


def subclasses(kind: Any) -> Iterator[Any]:
    """All classes that inherit from ``kind``."""
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def last_line(function: Any) -> Optional[Dict[str, Any]]:
    """Where a function returns, else where it begins; None if torch wrote it."""
    at, code = written(function), getattr(function, "__code__", None)
    if at is None or code is None or shown(code.co_filename) is None:
        return None
    return {**at, "line": source.returned(code.co_filename, at["line"]) or at["line"]}


def inference(log: List[Switch]) -> Optional[Dict[str, Any]]:
    """Where inference mode was entered last in this step, else the only place that may do it."""
    last = next((each for each in reversed(log) if each.how == "inference_mode"), None)
    found = {"kind": "inference", "text": "torch.inference_mode()"}
    if last is not None and last.decorated is not None:
        at = last.decorated
        return {**found, "text": at["function"], "frames": [at, *last.frames]}
    if last is not None:
        return {**found, "frames": last.frames}
    places = [at for _, at in source.called("inference_mode".__eq__)]
    return {**found, "frames": places} if len(places) == 1 else None


def sparse(
    optimizers: List[Any], names_of: Callable[[List[Any]], List[str]]
) -> Optional[Dict[str, Any]]:
    """The parameters that have a sparse gradient, and where the script asks for that."""
    held = [p for each in optimizers for p in held_by(each)]
    found = [p for p in held if p.grad is not None and p.grad.is_sparse]
    if not found:
        return None
    places = [at for _, at in source.said("sparse".__eq__, lambda value: value is True)]
    return {"kind": "sparse", "text": listed(names_of(found)), "frames": places[:SHOWN]}


def idle(
    error: BaseException, names_of: Callable[[List[Any]], List[str]]
) -> Optional[Dict[str, Any]]:
    """The parameters for whose gradients DistributedDataParallel waits, and where it was built."""
    found = IDLE.search(str(error))
    indices = [int(each) for each in found.group(1).split()] if found else []
    models: List[Any] = [each.get("self") for each in variables(error) if indices]
    for model in models:
        if type(model).__name__ == DISTRIBUTED[0]:
            learning = [p for p in model.module.parameters() if p.requires_grad]
            text = listed(names_of([learning[each] for each in indices]))
            places = [at for _, at in source.called(DISTRIBUTED.__contains__)]
            return {"kind": "idle", "text": text, "frames": places[:SHOWN]}
    return None


def unchecked(
    error: BaseException, forward: ForwardWatch, parameters: ParameterWatch, passes: int
) -> Optional[Dict[str, Any]]:
    """Why nothing that an optimizer holds had a gradient when a GradScaler was to step it."""
    given = [each["optimizer"] for each in variables(error) if "optimizer" in each]
    if not given or UNCHECKED not in str(error):
        return None
    held = set(map(id, held_by(given[-1])))
    dropped = [at for i, at in forward.severing.dropped.items() if i in held and at is not None]
    found = {"text": type(given[-1]).__name__, "frames": []}
    if dropped:
        return {**found, "kind": "cleared", "frames": line(dropped[-1])}
    if not passes:
        return {**found, "kind": "unasked"}
    if parameters.reached and held.isdisjoint(parameters.reached):
        return {**found, "kind": "elsewhere", "frames": parameters.built_at(given[-1])}
    return None


def listed(names: List[str]) -> str:
    """The first few names, each once."""
    each = list(dict.fromkeys(names))
    return "`, `".join(each[:SHOWN] + ([f"{len(each) - SHOWN} more"] if each[SHOWN:] else []))


def left_out(error: BaseException, received: Set[str]) -> Optional[Dict[str, Any]]:
    """The columns of the data that did not reach the model, and where the script names one."""
    for trainer in (each.get("self") for each in variables(error)):
        columns = getattr(getattr(trainer, "train_dataset", None), "column_names", None)
        if isinstance(columns, list):
            missing = [each for each in columns if each not in received]
            found = {"kind": "columns", "text": listed(missing)}
            places = [place for _, _, place in source.given(missing.__contains__)]
            return {**found, "frames": places} if missing else None
    return None


def emptied(error: BaseException) -> Optional[Dict[str, Any]]:
    """The limits of length in a script whose data had rows, and has none after its preparation."""
    if "num_samples=0" not in str(error):
        return None
    data: List[Any] = [
        getattr(each.get("self"), "train_dataset", None) for each in variables(error)
    ]
    empty = {type(each) for each in data if hasattr(each, "column_names") and not len(each)}
    given = [value for each in variables(error) for value in each.values() if type(value) in empty]
    limits = source.said(LENGTH.search, lambda value: isinstance(value, int)) if any(given) else []
    found = {"kind": "limits", "text": listed([text for text, _ in limits])}
    return {**found, "frames": [at for _, at in limits]} if limits else None


def without_parameters(error: BaseException) -> List[Any]:
    """The modules in the traceback's functions that gave an optimizer no parameters."""
    if "empty parameter list" not in str(error):
        return []
    import torch

    values = [value for each in variables(error) for value in list(each.values())]
    modules = {id(each): each for each in values if isinstance(each, torch.nn.Module)}
    return [each for each in modules.values() if next(each.parameters(), None) is None]
