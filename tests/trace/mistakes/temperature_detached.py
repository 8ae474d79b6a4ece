# cause: detached
import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Linear(3, 2)
log_alpha = torch.zeros(1, requires_grad=True)
of_actor = torch.optim.Adam(actor.parameters(), lr=0.01)
of_alpha = torch.optim.Adam([log_alpha], lr=0.01)
for _ in range(6):
    mean, scale = actor(torch.randn(16, 3)).chunk(2, -1)
    policy = torch.distributions.Normal(mean, scale.exp())
    action = policy.rsample()
    log_prob = policy.log_prob(action)
    alpha = log_alpha.exp().detach()  # here
    of_actor.zero_grad()
    (alpha * log_prob - action).mean().backward()
    of_actor.step()
    of_alpha.zero_grad()
    (-(alpha * (log_prob.detach() - 1))).mean().backward()
    of_alpha.step()
