"""A scenario's healthy variant with one known fault in it: ``FAULT|SCENARIO|VARIANT|SEED``.

The script itself is not changed. A fault gets in when the first optimizer is built: after the model
and before the first step in a plain loop, in Lightning and in every Trainer. The fault ``none``
changes only the seed.

``truth.json`` in the working directory says where a diagnosis should point: {"modules": [dotted
name, ...] or null if no module is to blame, "root": class of the outermost module, "built_at":
[file, line] of the optimizer}. It does not exist if the fault did not get in.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any

import torch

if not __package__:  # started by path: the folder becomes a package of its own name
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "gradmatrix_faults", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["gradmatrix_faults"] = package
    spec.loader.exec_module(package)
    __package__ = "gradmatrix_faults"

from . import faults
from .target import Target, as_class

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
SCENARIOS = os.path.join(ROOT, "scenarios")


def train(variant: str, device: str, steps: int) -> None:
    """Train what ``variant`` names, with its fault."""
    fault, scenario, healthy, seed = variant.split("|")
    script = load(scenario)
    reseed(int(seed))
    if fault != "none":
        inject(fault, Target(variant, device))
    if healthy == "closure_without_lightning":
        # This loop has a closure, but uses Adafactor; the faults are made with AdamW.
        script.Adafactor = lambda params, lr, **_settings: torch.optim.AdamW(params, lr=lr)
    script.train(healthy, device, steps)


def inject(fault: str, target: Target) -> None:
    """Make the fault as soon as there is an optimizer, or in the class of the optimizer."""
    mistake = getattr(faults, fault)
    in_class = mistake in faults.OF_OPTIMIZER
    if in_class:
        torch.optim.AdamW = as_class(mistake(target))

    def built() -> None:
        if not in_class:
            target.modules = mistake(target)
        truth = {
            "modules": target.modules,
            "root": type(target.root).__name__,
            "built_at": target.built_at,
        }
        with open("truth.json", "w", encoding="utf-8") as file:
            json.dump(truth, file)

    target.when_built(built)


def load(scenario: str) -> Any:
    """The scenario's module."""
    path = os.path.join(SCENARIOS, scenario + ".py")
    spec = importlib.util.spec_from_file_location(scenario, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[scenario] = module
    spec.loader.exec_module(module)
    return module


def reseed(seed: int) -> None:
    """Add ``seed`` to every fixed seed of the script and its libraries."""
    original = torch.manual_seed

    def manual_seed(given: int) -> Any:
        return original(int(given) + seed)

    torch.manual_seed = manual_seed


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu", 6)
