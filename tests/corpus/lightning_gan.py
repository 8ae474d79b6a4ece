# /// script
# dependencies = ["lightning"]
# [tool.corpus]
# environment = "language"
# field = "training with lightning"
# source = "https://lightning.ai/docs/pytorch/stable/model/manual_optimization.html"
# optimizer = true
# ///
"""Manual optimization with two optimizers, toggled by turns: a GAN of points on a line."""

import lightning as L
import torch
from torch import nn

L.seed_everything(1)


class SimpleGAN(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.automatic_optimization = False
        self.criterion = nn.BCEWithLogitsLoss()

    def training_step(self, batch, batch_idx):
        g_opt, d_opt = self.optimizers()
        (X,) = batch
        real_label, fake_label = torch.ones(len(X), 1), torch.zeros(len(X), 1)
        g_X = self.G(torch.randn(len(X), 4))

        # Optimize discriminator
        self.toggle_optimizer(d_opt)
        errD_real = self.criterion(self.D(X), real_label)
        errD_fake = self.criterion(self.D(g_X.detach()), fake_label)
        errD = errD_real + errD_fake
        d_opt.zero_grad()
        self.manual_backward(errD)
        d_opt.step()
        self.untoggle_optimizer(d_opt)

        # Optimize generator
        errG = self.criterion(self.D(g_X), real_label)
        g_opt.zero_grad()
        self.manual_backward(errG)
        g_opt.step()
        self.log_dict({"g_loss": errG, "d_loss": errD})

    def configure_optimizers(self):
        g_opt = torch.optim.Adam(self.G.parameters(), lr=5e-3)
        d_opt = torch.optim.Adam(self.D.parameters(), lr=5e-3)
        return g_opt, d_opt


line = torch.linspace(-1, 1, 64).unsqueeze(1) * torch.tensor([[1.0, 2.0]])
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(line), batch_size=16)
model = SimpleGAN()
trainer = L.Trainer(
    max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(model, loader)
print({k: round(v.item(), 3) for k, v in trainer.callback_metrics.items()})
