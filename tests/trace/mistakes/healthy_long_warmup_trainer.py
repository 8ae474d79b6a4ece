# healthy
# says: kept the learning rate below 1 %

import torch
from torch import nn
from transformers import Trainer, TrainingArguments, set_seed

set_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, x, labels=None):
        logits = self.head(torch.tanh(self.body(x)))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


rows = [{"x": torch.randn(8), "labels": torch.tensor(n % 2)} for n in range(32)]

args = TrainingArguments(
    output_dir="out",
    max_steps=6,
    learning_rate=1e-3,
    warmup_steps=100_000,  # the run has 6
    per_device_train_batch_size=4,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
)
Trainer(model=Net(), args=args, train_dataset=rows).train()
