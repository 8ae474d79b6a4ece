# cause: exception
# says: `module.aux.weight`, `module.aux.bias` got no gradient in the last step of DistributedDataParallel
import tempfile
from pathlib import Path

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(8, 16)
        self.head = nn.Linear(16, 3)
        self.aux = nn.Linear(16, 1)

    def forward(self, x, aux=False):
        hidden = self.trunk(x).relu()
        return (self.head(hidden), self.aux(hidden)) if aux else self.head(hidden)


torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    meeting = f"file://{Path(folder, 'meeting')}"
    distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    model = DistributedDataParallel(Classifier())  # here
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = torch.randn(32, 8), torch.randint(3, (32,))
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
