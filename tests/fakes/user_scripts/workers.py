"""Loads its data in workers that are forked or spawned; a spawned one imports this file anew."""

# ruff: noqa: D101, INP001  (a user's own)

import os
import sys

import torch


class Data(torch.utils.data.Dataset):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        self.place = os.getcwd()  # noqa: PTH109

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        if os.getcwd() != self.place:  # noqa: PTH109
            raise RuntimeError(f"a worker of {self.place} is elsewhere")
        return torch.full((4,), index / 400)


if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(
        Data(), batch_size=2, num_workers=1, multiprocessing_context=sys.argv[1]
    )
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in loader:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
