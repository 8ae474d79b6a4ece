"""Pure: the lines that make a failure speak of which the script itself says nothing. They need torch 2.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model import Gradient
from harness.outcome import Outcome, Phase
from harness.verdict import GOT

if TYPE_CHECKING:
    from harness.model import Record

NAMES = """
    def note_names(module: torch.nn.Module, _inputs: object) -> None:
        for name, parameter in module.named_parameters():
            names.setdefault(parameter, name)
"""
GRADIENTS = """
def main() -> None:
    \"\"\"Train, and look at the gradients that the optimizer is given: nothing else tells.\"\"\"
    import sys

    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    names: dict[torch.nn.Parameter, str] = {{}}
    learned: dict[torch.nn.Parameter, bool] = {{}}
{names}
    def note_gradients(optimizer: torch.optim.Optimizer, _args: object, _kwargs: object) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                good = gradient is not None and bool({good})
                if parameter.requires_grad:
                    learned[parameter] = learned.get(parameter, False) or good

    register_module_forward_pre_hook(note_names)
    register_optimizer_step_pre_hook(note_gradients)
    train()
    bad = [names.get(parameter, "?") for parameter, good in learned.items() if not good]
    if bad:
        listed = ", ".join(bad[:3]) + (f" and {{len(bad) - 3}} more" if len(bad) > 3 else "")
        sys.exit(f"{{len(bad)}} of {{len(learned)}} trainable parameters got {got}: {{listed}}")
"""
UPDATES = """
def main() -> None:
    \"\"\"Train, and compare the parameters with what they were before: nothing else tells.\"\"\"
    import sys

    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    before: dict[torch.nn.Parameter, tuple[str, torch.Tensor]] = {}

    def note_values(module: torch.nn.Module, _inputs: object) -> None:
        for name, parameter in module.named_parameters() if module.training else ():
            if parameter.requires_grad and parameter not in before:
                before[parameter] = (name, parameter.detach().clone())

    register_module_forward_pre_hook(note_values)
    train()
    same = [name for parameter, (name, value) in before.items() if torch.equal(parameter, value)]
    if same:
        listed = ", ".join(same[:3]) + (f" and {len(same) - 3} more" if len(same) > 3 else "")
        sys.exit(f"{len(same)} of {len(before)} trainable parameters did not change: {listed}")
"""
TRAINABLE = """
def main() -> None:
    \"\"\"Train, and look at what could have learned something: nothing else tells.\"\"\"
    import sys

    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    names: dict[torch.nn.Parameter, str] = {{}}
{names}
    register_module_forward_pre_hook(note_names)
    train()
    if not any(parameter.requires_grad for parameter in names):
        sys.exit(f"nothing is trainable: all of {{len(names)}} parameters are frozen, and nothing has said so")
"""
LOSSES = """
def main() -> None:
    \"\"\"Train, and look at the losses: nothing else tells.\"\"\"
    import math
    import sys

    import torch

    losses: list[float] = []
    backward = torch.autograd.backward

    def noting_losses(tensors, *args, **kwargs):
        for tensor in [tensors] if isinstance(tensors, torch.Tensor) else tensors:
            losses.append(float(tensor.detach().sum()))
        return backward(tensors, *args, **kwargs)

    torch.autograd.backward = noting_losses
    train()
    if not all(map(math.isfinite, losses)):
        sys.exit(f"the loss is not finite: {losses}")
"""
NOTHING_TRAINABLE = "nothing is trainable"
"""What a verdict says where there is no parameter to look at."""


def main_of(record: Record) -> str | None:
    """A ``main()`` that trains and ends with exit code 1 where what is recorded happens; None where it raises."""
    outcome = Outcome.parse(record.outcome)
    if record.observation is not None and record.observation.raised is not None:
        return None
    if outcome.phase is Phase.GRADIENT and record.message == NOTHING_TRAINABLE:
        return TRAINABLE.format(names=NAMES)
    if outcome.phase is Phase.GRADIENT:
        status = Gradient(outcome.reason)
        good = "gradient.isfinite().all()" if status is Gradient.NONFINITE else "gradient.count_nonzero()"
        return GRADIENTS.format(names=NAMES, good=good, got=GOT[status])
    if outcome.phase is Phase.UPDATE:
        return UPDATES
    return LOSSES if record.outcome == "step:nonfinite-loss" else None
