"""An ordinary training script: arguments, a module beside it, and a class that is pickled."""

# ruff: noqa: D101, D102, D103, INP001, S301  (a user's own)

import argparse
import os
import pickle
import sys

import beside  # type: ignore[import-not-found, unused-ignore]
import torch


class Net(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(beside.WIDTH, 8), torch.nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(torch.tanh(self.first(x)))
        return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    if os.environ.get("CUDA_VISIBLE_DEVICES") != "" or torch.cuda.is_available():
        raise RuntimeError("a GPU may be seen")
    if not sys.argv[0].endswith("plain.py") or not sys.path[0].endswith("user_scripts"):
        raise RuntimeError(f"not what python gives a script: {sys.argv[0]}, {sys.path[0]}")
    net = pickle.loads(pickle.dumps(Net()))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(options.steps):
        optimizer.zero_grad()
        net(torch.randn(8, beside.WIDTH)).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
