# /// script
# dependencies = ["higher"]
# [tool.corpus]
# environment = "science"
# field = "meta-learning"
# source = "https://github.com/facebookresearch/higher/blob/main/examples/maml-omniglot.py"
# optimizer = true
# kept_out = true
# ///
"""MAML with higher: the outer step goes back through the inner steps on sine waves."""

import math

import higher
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


def sample_task():
    amplitude, phase = 0.5 + 2 * torch.rand(1), math.pi * torch.rand(1)
    x = 10 * torch.rand(20, 1) - 5
    y = amplitude * torch.sin(x + phase)
    return x[:10], y[:10], x[10:], y[10:]


net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
meta_opt = torch.optim.Adam(net.parameters(), lr=1e-3)
inner_opt = torch.optim.SGD(net.parameters(), lr=1e-2)
task_num, n_inner_iter = 4, 3

for batch_idx in range(10):
    qry_losses = []
    meta_opt.zero_grad()
    for _ in range(task_num):
        x_spt, y_spt, x_qry, y_qry = sample_task()
        with higher.innerloop_ctx(net, inner_opt, copy_initial_weights=False) as (fnet, diffopt):
            for _ in range(n_inner_iter):
                spt_loss = F.mse_loss(fnet(x_spt), y_spt)
                diffopt.step(spt_loss)
            qry_loss = F.mse_loss(fnet(x_qry), y_qry)
            qry_losses.append(qry_loss.detach())
            qry_loss.backward()
    meta_opt.step()
    if batch_idx % 3 == 0:
        print(f"[{batch_idx}] Train Loss: {sum(qry_losses) / task_num:.4f}")
