# healthy
# says: load_state_dict at target_is_the_same_module.py:9 gets the module's own values
import torch
from torch import nn

torch.manual_seed(0)
models = {"q": nn.Linear(4, 2)}
policy, target = models["q"], models["q"]
target.load_state_dict(policy.state_dict())
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
x, reward = torch.randn(16, 4), torch.randn(16, 1)
for _ in range(8):
    with torch.no_grad():
        expected = reward + 0.9 * target(x).max(1, keepdim=True).values
    loss = nn.functional.mse_loss(policy(x)[:, :1], expected)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
