"""Ends itself after a few optimizer steps, in the way that its argument names, or never ends."""

# ruff: noqa: E722, INP001, T201, TRY002  (a user's own)

import os
import sys
import unittest

import torch

how = sys.argv[1]
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
failed = False
try:
    for _ in range(3 if how.startswith("early") else 1000):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
except:
    failed = True
    if how == "late_cleaning_up":
        raise Exception("nothing to clean up") from None
    if how != "late_and_swallowing":
        raise
if how == "early_exit_0":
    sys.exit(0)
elif how == "early_exit_3":
    print(f"could not write {os.path.abspath('model.pt')}")  # noqa: PTH100
    sys.exit(3)
elif how == "early_exit_words":
    sys.exit("the disk is full")
elif how == "early_exception":
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    raise FileNotFoundError(os.path.join(folder, "a.txt"))  # noqa: PTH118
elif how == "early_skip":
    raise unittest.SkipTest("not today")
elif failed:
    sys.exit(1)
