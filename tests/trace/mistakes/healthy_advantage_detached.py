# healthy
# The advantage is a value; the actor of a shared trunk and its critic learn by their own losses.
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.ReLU())
        self.policy = nn.Linear(32, 2)
        self.value = nn.Linear(32, 1)

    def forward(self, state):
        hidden = self.body(state)
        return Categorical(logits=self.policy(hidden)), self.value(hidden).squeeze(-1)


model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(8):
    log_probs, values, rewards = [], [], []
    for _ in range(6):
        policy, value = model(torch.randn(1, 4))
        action = policy.sample()
        log_probs.append(policy.log_prob(action))
        values.append(value)
        rewards.append(action.float())
    returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
    log_probs, values = torch.stack(log_probs), torch.stack(values)
    advantage = returns - values
    policy_loss = -(log_probs * advantage.detach()).mean()
    value_loss = nn.functional.smooth_l1_loss(values, returns)
    loss = policy_loss + 0.5 * value_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
