# /// script
# dependencies = ["lightning"]
# [tool.corpus]
# environment = "language"
# field = "training with lightning"
# source = "https://lightning.ai/docs/pytorch/stable/starter/introduction.html"
# optimizer = true
# ///
"""The autoencoder of Lightning's introduction: automatic optimization and a validation loop."""

import lightning as L
import torch
from torch import nn, optim, utils

L.seed_everything(0)
encoder = nn.Sequential(nn.Linear(28, 16), nn.ReLU(), nn.Linear(16, 3))
decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 28))


class LitAutoEncoder(L.LightningModule):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def training_step(self, batch, batch_idx):
        (x,) = batch
        z = self.encoder(x)
        x_hat = self.decoder(z)
        loss = nn.functional.mse_loss(x_hat, x)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        self.log("val_loss", nn.functional.mse_loss(self.decoder(self.encoder(x)), x))

    def configure_optimizers(self):
        optimizer = optim.Adam(self.parameters(), lr=1e-2)
        return optimizer


autoencoder = LitAutoEncoder(encoder, decoder)
images = torch.randn(96, 3) @ torch.randn(3, 28)
train_loader = utils.data.DataLoader(utils.data.TensorDataset(images[:64]), batch_size=8)
valid_loader = utils.data.DataLoader(utils.data.TensorDataset(images[64:]), batch_size=8)
trainer = L.Trainer(
    max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(autoencoder, train_loader, valid_loader)
print({k: round(v.item(), 4) for k, v in trainer.callback_metrics.items()})
