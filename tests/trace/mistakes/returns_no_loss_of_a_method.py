# cause: not-called not-trained
# says: `_loss` returns nothing
# says: Return the loss from training_step
# library
import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def _loss(self, batch):  # here
        x, y = batch
        self.log("loss", nn.functional.mse_loss(self.layer(x), y))

    def training_step(self, batch):
        return self._loss(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


data = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), 8)
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **quiet)
trainer.fit(Model(), data)
