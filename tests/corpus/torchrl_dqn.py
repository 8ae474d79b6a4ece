# /// script
# dependencies = ["torchrl", "tensordict"]
# [tool.corpus]
# environment = "science"
# field = "Reinforcement learning"
# source = "https://pytorch.org/rl/stable/reference/generated/torchrl.objectives.DQNLoss.html"
# optimizer = true
# ///
"""DQN with the loss module of torchrl: target parameters live beside the network's own."""

import torch
from tensordict import TensorDict
from torch import nn
from torchrl.data import OneHot
from torchrl.modules import QValueActor
from torchrl.objectives import DQNLoss, SoftUpdate

torch.manual_seed(0)
n_obs, n_act = 4, 3
value_net = nn.Sequential(nn.Linear(n_obs, 32), nn.Tanh(), nn.Linear(32, n_act))
actor = QValueActor(value_net, in_keys=["observation"], spec=OneHot(n_act))
loss_module = DQNLoss(actor, action_space=OneHot(n_act), delay_value=True)
loss_module.make_value_estimator(gamma=0.9)
target_updater = SoftUpdate(loss_module, eps=0.9)
optimizer = torch.optim.Adam(loss_module.parameters(), lr=5e-3)


def sample(batch):
    observation = torch.randn(batch, n_obs)
    action = torch.nn.functional.one_hot(torch.randint(n_act, (batch,)), n_act)
    next_observation = observation + 0.1 * torch.randn(batch, n_obs)
    reward = (action * observation[:, :n_act]).sum(-1, keepdim=True)
    done = torch.rand(batch, 1) < 0.1
    return TensorDict(
        {
            "observation": observation,
            "action": action,
            ("next", "observation"): next_observation,
            ("next", "reward"): reward,
            ("next", "done"): done,
            ("next", "terminated"): done,
        },
        [batch],
    )


for step in range(40):
    loss = loss_module(sample(64))["loss"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    target_updater.step()
    if step % 10 == 0:
        print(f"{step}: loss {loss.item():.4f}")
