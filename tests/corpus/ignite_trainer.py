# /// script
# dependencies = ["pytorch-ignite"]
# [tool.corpus]
# environment = "vision"
# field = "ignite"
# source = "https://docs.pytorch.org/ignite/"
# optimizer = true
# ///
"""A supervised trainer of ignite with an evaluator, metrics and handlers."""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import EMAHandler
from ignite.metrics import Accuracy, Loss
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
images = torch.randn(192, 1, 12, 12)
labels = torch.randint(3, (192,))
images[:, 0, :4, :4] += labels[:, None, None]
train_loader = DataLoader(TensorDataset(images[:128], labels[:128]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(images[128:], labels[128:]), batch_size=64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(3)
        )
        self.fc = nn.Linear(72, 3)

    def forward(self, x):
        return self.fc(self.model(x).flatten(1))


model = Net()
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.005)
criterion = nn.CrossEntropyLoss()

trainer = create_supervised_trainer(model, optimizer, criterion)
val_metrics = {"accuracy": Accuracy(), "loss": Loss(criterion)}
val_evaluator = create_supervised_evaluator(model, metrics=val_metrics)

ema_handler = EMAHandler(model, momentum=0.05)
ema_handler.attach(trainer, event=Events.ITERATION_COMPLETED)


@trainer.on(Events.EPOCH_COMPLETED)
def log_validation_results(trainer):
    val_evaluator.run(val_loader)
    metrics = val_evaluator.state.metrics
    print(
        f"Epoch[{trainer.state.epoch}] accuracy: {metrics['accuracy']:.2f}"
        f" loss: {metrics['loss']:.2f}"
    )


trainer.run(train_loader, max_epochs=4)
