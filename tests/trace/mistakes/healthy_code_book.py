# healthy
# after https://github.com/zalandoresearch/pytorch-vq-vae (VectorQuantizerEMA)
import torch
import torch.nn as nn
import torch.nn.functional as F


class VectorQuantizerEMA(nn.Module):
    def __init__(self, k, d, commitment=0.25, decay=0.9, eps=1e-5):
        super().__init__()
        self.k, self.commitment, self.decay, self.eps = k, commitment, decay, eps
        self.embedding = nn.Embedding(k, d)
        self.embedding.weight.data.normal_()
        self.register_buffer("cluster_size", torch.zeros(k))
        self.ema_w = nn.Parameter(torch.randn(k, d))

    def forward(self, z):
        dist = z.pow(2).sum(1, keepdim=True) + self.embedding.weight.pow(2).sum(1) - 2 * z @ self.embedding.weight.t()
        idx = dist.argmin(1)
        enc = F.one_hot(idx, self.k).float()
        q = enc @ self.embedding.weight
        if self.training:
            self.cluster_size = self.cluster_size * self.decay + (1 - self.decay) * enc.sum(0)
            n = self.cluster_size.sum()
            self.cluster_size = (self.cluster_size + self.eps) / (n + self.k * self.eps) * n
            self.ema_w = nn.Parameter(self.ema_w * self.decay + (1 - self.decay) * enc.t() @ z)
            self.embedding.weight = nn.Parameter(self.ema_w / self.cluster_size.unsqueeze(1))
        loss = self.commitment * F.mse_loss(q.detach(), z)
        return z + (q - z).detach(), loss


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 8))
        self.vq = VectorQuantizerEMA(16, 8)
        self.dec = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 24))

    def forward(self, x):
        q, l = self.vq(self.enc(x))
        return self.dec(q), l


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=False)
model.train()
for i in range(30):
    x = torch.randn(64, 24)
    optimizer.zero_grad()
    rec, vq_loss = model(x)
    loss = F.mse_loss(rec, x) + vq_loss
    loss.backward()
    optimizer.step()
print(loss.item())
