# cause: detached
# says: Learning: judge: 2 parameters. Not learning: maker: 2 parameters
# says: in that loss only
import torch
from torch import nn

torch.manual_seed(0)
maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
of_maker = torch.optim.SGD(maker.parameters(), lr=0.1)
of_judge = torch.optim.SGD(judge.parameters(), lr=0.1)
for _ in range(6):
    made = maker(torch.randn(8, 4)).detach()  # here
    of_judge.zero_grad()
    judge(made).pow(2).mean().backward()
    of_judge.step()
    of_maker.zero_grad()
    (-judge(made).mean()).backward()
    of_maker.step()
