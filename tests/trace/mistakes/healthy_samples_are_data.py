# healthy
# Samples that need no gradient: their log-probabilities are the loss, and a critic gets them.
import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 1))
prior, decoder = nn.Linear(2, 2), nn.Linear(1, 3)
parameters = [p for each in (actor, critic, prior, decoder) for p in each.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3)
for step in range(8):
    state = torch.randn(32, 3)
    mean, log_std = actor(state).chunk(2, dim=-1)
    std = log_std.exp()
    if step % 2:
        action = Normal(mean, std).sample()
        log_probability = Normal(mean, std).log_prob(action)
    else:
        action = torch.normal(mean, std)
        log_probability = -(action - mean) ** 2 / (2 * std**2) - log_std
    reward = -((action.detach() - state[:, :1]) ** 2)
    value = critic(action)
    advantage = (reward - value).detach()
    loss = -(log_probability * advantage).mean() + ((reward - value) ** 2).mean()
    # a prior that learns by its KL term; the decoder learns from a sample of the posterior, too
    prior_mean, prior_log_std = prior(state[:, :2]).chunk(2, dim=-1)
    p, q = Normal(prior_mean, prior_log_std.exp()), Normal(mean.detach(), std.detach())
    kl = torch.distributions.kl_divergence(q, p).mean()
    own = decoder(Normal(mean, std).rsample())
    loss = loss + kl + ((own - state) ** 2).mean() + decoder(p.sample()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
