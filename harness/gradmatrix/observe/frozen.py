"""What is frozen, and what froze it: a line of the script, or an adapter of PEFT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Set, Tuple

from . import source
from .frames import line, written
from .torches import title

if TYPE_CHECKING:
    from .severing import SeveringWatch

TASKS = {"ForSequenceClassification": "SEQ_CLS", "ForTokenClassification": "TOKEN_CLS"}
"""The task types for which PEFT trains the head of such a model, and saves it."""
MARKING = "_mark_only_adapters_as_trainable"
"""The method by which PEFT freezes a model when it adds an adapter."""
UNLOADING = ("merge_and_unload", "unload")
"""The methods that give the model back without its adapters. What is frozen stays so."""
MERGING = ("merge_adapter",)
"""The method that adds the adapters to the weights below them, and then runs only these."""


def frozen_by_line(
    modules: Dict[int, Any], severing: SeveringWatch, names: Dict[int, str], most: int
) -> List[Dict[str, Any]]:
    """The frozen parameters of ``modules`` (by id), grouped by the line that froze them.

    Those of an unknown line come last.
    """
    owners = {
        id(p): module
        for module in modules.values()
        for p in module.parameters(recurse=False)
        if not p.requires_grad
    }
    last = {
        id(member()): at
        for at, members in severing.froze.items()
        for member in members
        if id(member()) in owners
    }
    lines: Dict[Any, List[int]] = {at: [] for at in (*severing.froze, None)}
    for identity in owners:
        lines[last.get(identity)].append(identity)
    groups = [(at, members) for at, members in lines.items() if members]
    return [
        {
            "modules": list(
                dict.fromkeys(names.get(id(owners[identity]), "?") for identity in members)
            )[:most],
            "parameters": len(members),
            "frames": [*line(at)[:1], *severing.arguments.get(at, ([], []))[1], *line(at)[1:]],
            "arguments": severing.arguments.get(at, ([], []))[0],
        }
        for at, members in groups[-most:]
    ]


def frozen_at(own: Dict[int, Any], severing: SeveringWatch) -> List[Dict[str, Any]]:
    """The line that last froze one of these parameters, given by id; empty if one can learn."""
    if any(parameter.requires_grad for parameter in own.values()):
        return []
    lines = [
        at
        for at, members in severing.froze.items()
        if any(id(member()) in own for member in members)
    ]
    return line(lines[-1]) if lines else []


def shared(
    modules: List[Any], trained: Set[int], severing: SeveringWatch, names: Dict[int, str]
) -> Optional[Dict[str, Any]]:
    """A module that has two names in another one, and was frozen by one of them.

    ``trained`` are the ids of the modules that ran in training mode.
    """
    for parent in modules:
        known: Dict[int, str] = {}
        for name, child in parent._modules.items():
            first = known.setdefault(id(child), name)
            if child is None or first == name:
                continue
            ran = any(id(module) in trained for module in child.modules())
            frames = frozen_at({id(p): p for p in child.parameters()}, severing) if ran else []
            if frames:
                module = title(child, names)["module"]
                return {"module": module, "names": [first, name], "frames": frames}
    return None


def wrappers(modules: List[Any]) -> Iterator[Tuple[Any, Dict[str, Any]]]:
    """The models of PEFT among ``modules``, each with the settings of its adapters."""
    for each in modules:
        settings = getattr(each, "peft_config", None)
        if isinstance(settings, dict) and hasattr(each, "get_base_model"):
            yield each, settings


def learns(module: Any) -> bool:
    """Whether a parameter of ``module`` can learn."""
    return any(parameter.requires_grad for parameter in module.parameters())


def for_inference(modules: List[Any], names: Dict[int, str]) -> List[Dict[str, Any]]:
    """The adapters of PEFT that were frozen because they were made for inference."""
    for wrapper, configs in wrappers(modules):
        if configs and all(getattr(each, "inference_mode", False) for each in configs.values()):
            said = source.keywords("inference_mode".__eq__, lambda value: value is True)
            loaded = source.calls("from_pretrained", without="is_trainable")
            places = [at for text, at in said or loaded if said or "Peft" in text]
            return [
                {
                    "modules": [title(wrapper, names)["module"]],
                    "parameters": sum(1 for _ in wrapper.parameters()),
                    "frames": places[-1:],
                    "arguments": ["inference_mode=True" if said else "is_trainable=False"],
                }
            ]
    return []


def unloaded(modules: List[Any], froze: List[List[Dict[str, Any]]]) -> Optional[Dict[str, Any]]:
    """The call that took the adapters away or merged them, if PEFT ``froze`` what is left.

    ``modules`` are those that ran.
    """
    layers = [each for each in modules if hasattr(type(each), "adapter_layer_names")]
    names: Tuple[str, ...] = ()
    if layers:
        names = MERGING if all(getattr(each, "merged", False) for each in layers) else ()
    elif any(frames[0]["function"] == MARKING for frames in froze):
        names = UNLOADING
    for name, at in source.called(names.__contains__) if names else ():
        return {"text": name, "frames": [at]}
    return None


def by_script(
    modules: List[Any], severing: SeveringWatch, names: Dict[int, str]
) -> List[Dict[str, Any]]:
    """The adapters of PEFT that the script itself froze, beside a part that learns."""
    for wrapper, _ in wrappers(modules):
        prefix = getattr(getattr(wrapper, "base_model", None), "prefix", None)
        if not isinstance(prefix, str):
            continue
        own = {id(p): p for name, p in wrapper.named_parameters() if prefix in name}
        froze = frozen_at(own, severing) if learns(wrapper) else []
        if froze and froze[0]["user"]:
            found = {"modules": [title(wrapper, names)["module"]], "parameters": len(own)}
            return [{**found, "frames": froze[:1], "arguments": []}]
    return []


def beside_adapters(
    modules: List[Any], severing: SeveringWatch, names: Dict[int, str]
) -> List[Dict[str, Any]]:
    """A layer of a class of the script that PEFT froze with the rest of the model."""
    for wrapper, _ in wrappers(modules):
        model = wrapper.get_base_model()
        if not learns(wrapper) or not (written(type(model).forward) or {}).get("user"):
            continue
        for layer in model.children():
            own = {id(p): p for p in layer.parameters()}
            froze = frozen_at(own, severing)
            if froze and type(layer).__module__.startswith("torch.nn") and not froze[0]["user"]:
                found = {"modules": [title(layer, names)["module"]], "parameters": len(own)}
                return [{**found, "frames": froze, "arguments": []}]
    return []


def resized(modules: List[Any], names: Dict[int, str]) -> List[Dict[str, Any]]:
    """The embeddings of tokens that the script resized, if PEFT froze them with the rest."""
    for wrapper, _ in wrappers(modules):
        embedding = getattr(wrapper, "get_input_embeddings", lambda: None)()
        if embedding is None or learns(embedding) or not learns(wrapper):
            continue
        for _, at in source.called("resize_token_embeddings".__eq__)[-1:]:
            found = {"modules": [title(embedding, names)["module"]], "parameters": 1}
            return [{**found, "frames": [at], "arguments": []}]
    return []


def adapted(
    modules: List[Any], severing: SeveringWatch, names: Dict[int, str]
) -> Optional[Dict[str, Any]]:
    """A head that PEFT froze because the adapter's task type is not that of the model."""
    for wrapper, configs in wrappers(modules):
        model = wrapper.get_base_model()
        kind = type(model).__name__
        wanted = next((task for end, task in TASKS.items() if kind.endswith(end)), None)
        tasks = [getattr(config, "task_type", None) for config in configs.values()]
        tasks = [getattr(task, "value", task) for task in tasks]
        if wanted is None or wanted in tasks or not tasks:
            continue
        body = getattr(model, getattr(model, "base_model_prefix", ""), None)
        heads = [child for child in model.children() if child is not body]
        for head in heads:
            own = {id(p): p for p in head.parameters()}
            if own and not learns(head):
                froze = frozen_at(own, severing)
                said = source.settings("task_type", type(next(iter(configs.values()))).__name__)
                return {
                    "module": title(head, names)["module"],
                    "task": str(tasks[0]),
                    "wanted": wanted,
                    "model": kind,
                    "frames": [*froze[:1], *said[-1:], *froze[1:]],
                }
    return None
