"""Lightning in 15 minutes, as its documentation has it, on random images; `--strategy` and `--devices` are its own."""

import argparse

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn, optim, utils


class LitAutoEncoder(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8 * 8, 32), nn.ReLU(), nn.Linear(32, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 8 * 8))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        x = x.view(x.size(0), -1)
        z = self.encoder(x)
        x_hat = self.decoder(z)
        loss = F.mse_loss(x_hat, x)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        x = x.view(x.size(0), -1)
        self.log("val_loss", F.mse_loss(self.decoder(self.encoder(x)), x))

    def configure_optimizers(self):
        return optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()

    L.seed_everything(0)
    dataset = utils.data.TensorDataset(torch.randn(128, 1, 8, 8))
    train_loader = utils.data.DataLoader(dataset, batch_size=8)
    val_loader = utils.data.DataLoader(dataset, batch_size=8)

    autoencoder = LitAutoEncoder()
    trainer = L.Trainer(
        accelerator="cpu", devices=args.devices, strategy=args.strategy, max_epochs=args.epochs, default_root_dir="logs"
    )
    trainer.fit(autoencoder, train_loader, val_loader)
    print("best model:", trainer.checkpoint_callback.best_model_path)
