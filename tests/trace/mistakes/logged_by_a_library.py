# cause: rebuilt
# library
# says: `torch.tensor` took the output

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Two(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.body, self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 1)

    def training_step(self, batch, _):
        x, y = batch
        hidden = self.body(x).relu()
        losses = {
            "one": nn.functional.cross_entropy(self.one(hidden), y),
            "other": self.other(hidden).square().mean(),
        }
        total = sum(torch.tensor(value) for value in losses.values())  # here
        total.requires_grad_(True)  # here
        self.log_dict(losses)
        return total

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


data = DataLoader(TensorDataset(torch.randn(48, 8), torch.randint(3, (48,))), 8)
lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
).fit(Two(), data)  # fmt: skip
