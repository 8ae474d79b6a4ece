# /// script
# dependencies = ["lightning"]
# [tool.corpus]
# environment = "language"
# field = "generative adversarial networks"
# source = "https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html"
# optimizer = true
# kept_out = true
# ///
"""A GAN with manual optimization in Lightning draws points on a ring."""

import logging
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class GAN(L.LightningModule):
    def __init__(self, latent_dim=4):
        super().__init__()
        self.automatic_optimization = False
        self.latent_dim = latent_dim
        self.G = nn.Sequential(nn.Linear(latent_dim, 32), nn.ReLU(), nn.Linear(32, 2))
        self.D = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def adversarial_loss(self, y_hat, y):
        return F.binary_cross_entropy_with_logits(y_hat, y)

    def training_step(self, batch, batch_idx):
        (real,) = batch
        g_opt, d_opt = self.optimizers()
        valid = torch.ones(len(real), 1)
        fake = torch.zeros(len(real), 1)

        # Optimize Discriminator
        g_X = self.G(torch.randn(len(real), self.latent_dim))
        errD = self.adversarial_loss(self.D(real), valid)
        errD = errD + self.adversarial_loss(self.D(g_X.detach()), fake)
        d_opt.zero_grad()
        self.manual_backward(errD)
        d_opt.step()

        # Optimize Generator
        errG = self.adversarial_loss(self.D(g_X), valid)
        g_opt.zero_grad()
        self.manual_backward(errG)
        g_opt.step()
        self.log_dict({"g_loss": errG, "d_loss": errD})

    def configure_optimizers(self):
        g_opt = torch.optim.Adam(self.G.parameters(), lr=1e-3)
        d_opt = torch.optim.Adam(self.D.parameters(), lr=1e-3)
        return g_opt, d_opt


L.seed_everything(0)
angle = torch.rand(256) * 6.283
train_loader = DataLoader(TensorDataset(torch.stack([angle.cos(), angle.sin()], 1)), batch_size=32)
trainer = L.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False)
model = GAN()
trainer.fit(model, train_loader)
print({k: round(float(v), 3) for k, v in trainer.callback_metrics.items()})
