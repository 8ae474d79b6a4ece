"""Run a script in a block of ``gradmatrix.watch()``, or without it: ``bench`` compares the two.

python watched.py SCRIPT TIMES BLOCK [ADDED_PATH]

TIMES is the argument of the script. The processor time of the block goes to the file BLOCK. With
ADDED_PATH, where gradmatrix and what it needs is found, the script is watched.
"""

import runpy
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch

script, times, result, *added = sys.argv[1:]
sys.argv = [script, times]
torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)  # the first one imports for seconds
block = nullcontext()
if added:
    sys.path += added
    import gradmatrix

    block = gradmatrix.watch()
began = time.process_time()
with block:
    runpy.run_path(script, run_name="__main__")
Path(result).write_text(str(time.process_time() - began), encoding="utf-8")
