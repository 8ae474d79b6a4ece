# /// script
# dependencies = ["higher", "torch"]
# [tool.corpus]
# environment = "science"
# field = "Meta-learning"
# source = "https://github.com/facebookresearch/higher/blob/main/examples/maml-omniglot.py"
# optimizer = true
# ///
"""MAML with higher: an SGD step unrolled in the inner loop, Adam on the starting weights."""

import higher
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
n_way, n_inner_iter, task_num = 5, 3, 4
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, n_way))
meta_opt = torch.optim.Adam(net.parameters(), lr=1e-2)
inner_opt = torch.optim.SGD(net.parameters(), lr=1e-1)


def next_batch(shots):
    centers = torch.randn(task_num, n_way, 16)
    y = torch.arange(n_way).repeat(task_num, shots)
    spt = centers.repeat(1, shots, 1) + 0.3 * torch.randn(task_num, n_way * shots, 16)
    qry = centers.repeat(1, shots, 1) + 0.3 * torch.randn(task_num, n_way * shots, 16)
    return spt, y, qry, y


for batch_idx in range(20):
    x_spt, y_spt, x_qry, y_qry = next_batch(shots=3)
    meta_opt.zero_grad()
    qry_losses = []
    for i in range(task_num):
        with higher.innerloop_ctx(net, inner_opt, copy_initial_weights=False) as (fnet, diffopt):
            # Optimize the likelihood of the support set by taking gradient steps.
            for _ in range(n_inner_iter):
                spt_loss = F.cross_entropy(fnet(x_spt[i]), y_spt[i])
                diffopt.step(spt_loss)

            # The final set of adapted parameters will induce some final loss on the query set.
            qry_loss = F.cross_entropy(fnet(x_qry[i]), y_qry[i])
            qry_losses.append(qry_loss.detach())
            qry_loss.backward()
    meta_opt.step()
    if batch_idx % 5 == 0:
        print(f"{batch_idx}: {sum(qry_losses).item() / task_num:.3f}")
