"""What the training fakes share: small models, their data, and the loop of every tutorial."""

# ruff: noqa: ANN401, T201  (torch has no types here; a script prints)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Loop = Callable[[str, list[torch.Tensor], int], Iterator[None]]
    """Gets a device, an empty list for the learned tensors, and the number of steps.

    It yields after each step.
    """


def learn(loop: Loop, device: str, steps: int) -> None:
    """Take `steps` steps of a loop, then print every learned number exactly."""
    torch.manual_seed(0)
    learned: list[torch.Tensor] = []
    for _ in zip(range(steps), loop(device, learned, steps), strict=False):
        pass
    for tensor in learned:
        print([float(value).hex() for value in tensor.detach().flatten().tolist()])
    print(float(torch.rand(())).hex())  # whoever draws random numbers beside the script shows here


def network(learned: list[torch.Tensor], device: str) -> Any:
    """Two layers, whose parameters are `learned`."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
    learned.extend(model.parameters())
    return model


def batch(device: str) -> torch.Tensor:
    """Sixteen inputs."""
    return torch.randn(16, 4, device=device)


def error(output: torch.Tensor) -> torch.Tensor:
    """A loss."""
    return (output - 1).square().mean()


def descend(
    optimizer: torch.optim.Optimizer, loss_of: Callable[[], torch.Tensor]
) -> Iterator[None]:
    """The loop of every tutorial."""
    while True:
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
        yield


def call_back(
    model: nn.Module, inputs: torch.Tensor, optimizer: torch.optim.Optimizer
) -> Iterator[None]:
    """Forward and backward inside of `optimizer.step`."""

    def calculate() -> torch.Tensor:
        optimizer.zero_grad()
        loss = error(model(inputs))
        loss.backward()
        return loss

    while True:
        optimizer.step(calculate)
        yield


def healthy(device: str, learned: list[torch.Tensor], _steps: int) -> Iterator[None]:
    """SGD on two layers."""
    model, inputs = network(learned, device), batch(device)
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))


class Block(nn.Module):  # type: ignore[misc]  # torch is not installed where this is checked
    """A layer of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """A linear map and tanh."""
        return torch.tanh(self.linear(hidden))


class Model(nn.Module):  # type: ignore[misc]  # the same
    """Embeddings, three layers, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 1)
        self.run_first: Callable[[nn.Module, torch.Tensor], torch.Tensor] = lambda block, hidden: (
            block(hidden)
        )
        """How the first layer is run: where a mistake is put in."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """One number for each input."""
        hidden = self.run_first(self.blocks[0], self.embed(inputs))
        for block in self.blocks[1:]:
            hidden = block(hidden)
        return self.head(hidden)


def descend_on(model: nn.Module, inputs: torch.Tensor) -> Iterator[None]:
    """The loop of every tutorial with SGD."""
    return descend(torch.optim.SGD(model.parameters(), lr=0.1), lambda: error(model(inputs)))
