# /// script
# dependencies = ["torch"]
# [tool.corpus]
# environment = "science"
# field = "Sampling"
# source = "https://colindcarroll.com/2019/04/11/hamiltonian-monte-carlo-from-scratch/"
# optimizer = false
# ///
"""Hamiltonian Monte Carlo by hand in float64: leapfrog steps with gradients of the log density."""

import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
mean = torch.tensor([1.0, -2.0])
precision = torch.linalg.inv(torch.tensor([[1.0, 0.8], [0.8, 2.0]]))


def negative_log_prob(q):
    return 0.5 * (q - mean) @ precision @ (q - mean)


def grad(q):
    q = q.detach().requires_grad_()
    return torch.autograd.grad(negative_log_prob(q), q)[0]


def leapfrog(q, p, path_len, step_size):
    p = p - step_size * grad(q) / 2  # half step
    for _ in range(int(path_len / step_size) - 1):
        q = q + step_size * p  # whole step
        p = p - step_size * grad(q)  # whole step
    q = q + step_size * p  # whole step
    p = p - step_size * grad(q) / 2  # half step
    return q, -p  # momentum flip at end


samples = [torch.zeros(2)]
for _ in range(200):
    p0 = torch.randn(2)
    q_new, p_new = leapfrog(samples[-1], p0, path_len=1.5, step_size=0.15)
    start_log_p = negative_log_prob(samples[-1]) + 0.5 * p0 @ p0
    new_log_p = negative_log_prob(q_new) + 0.5 * p_new @ p_new
    if torch.log(torch.rand(())) < start_log_p - new_log_p:
        samples.append(q_new)
    else:
        samples.append(samples[-1].clone())

samples = torch.stack(samples[1:])
print("mean of the samples:", samples.mean(0).tolist())
