# /// script
# dependencies = ["lightning"]
# [tool.corpus]
# environment = "language"
# field = "weight averaging"
# source = "https://lightning.ai/docs/pytorch/stable/advanced/training_tricks.html"
# optimizer = true
# ///
"""Stochastic weight averaging as a callback, with gradient clipping and accumulation."""

import lightning as L
import torch
from lightning.pytorch.callbacks import StochasticWeightAveraging
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

L.seed_everything(2)


class Regressor(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(6, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 1)
        )

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.smooth_l1_loss(self(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
        return [optimizer], [scheduler]


x = torch.randn(128, 6)
y = x.prod(1, keepdim=True) + x[:, :1]
model = Regressor()
trainer = L.Trainer(
    max_epochs=6, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
    gradient_clip_val=1.0, accumulate_grad_batches=2,
    callbacks=[StochasticWeightAveraging(swa_lrs=1e-2)],
)
trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True))
print(f"loss {trainer.callback_metrics['loss'].item():.4f}")
