"""Manual optimisation in mixed precision under Lightning: a look at the output without gradients comes first."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class TwoPasses(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.network = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        with torch.no_grad():
            target = self.network(x).float()

        loss = nn.functional.mse_loss(self.network(x + 0.1).float(), target)
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    L.seed_everything(0)
    data = TensorDataset(torch.randn(64, 16))
    trainer = L.Trainer(
        max_epochs=1, accelerator="cpu", precision="bf16-mixed", logger=False, enable_checkpointing=False
    )
    trainer.fit(TwoPasses(), DataLoader(data, batch_size=8))
