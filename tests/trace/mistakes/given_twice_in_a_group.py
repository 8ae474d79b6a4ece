# cause: other-parameters
# says: the same parameters twice in one group
import warnings

import torch
from torch import nn

torch.manual_seed(0)
warnings.simplefilter("ignore")
model = nn.ModuleDict({"body": nn.Linear(4, 8), "a": nn.Linear(8, 1), "b": nn.Linear(8, 1)})
optimizer = torch.optim.SGD(  # here
    [*model["body"].parameters(), *model["a"].parameters(), *model["a"].parameters()],
    lr=1e-2,
)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(8):
    hidden = model["body"](x).relu()
    loss = sum(nn.functional.mse_loss(model[name](hidden), y) for name in "ab")
    model.zero_grad()
    loss.backward()
    optimizer.step()
