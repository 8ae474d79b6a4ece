# /// script
# dependencies = ["transformers"]
# [tool.corpus]
# environment = "language"
# field = "text classification"
# source = "https://huggingface.co/learn/llm-course/chapter3/4"
# optimizer = true
# ///
"""A plain loop: a small DistilBERT, AdamW and a linear schedule with warm-up."""

import torch
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import DistilBertConfig, DistilBertForSequenceClassification, get_scheduler

torch.manual_seed(2)
ids = torch.randint(4, 80, (80, 10))
labels = (ids[:, 1] > 40).long()
dataset = [{"input_ids": i, "labels": y} for i, y in zip(ids, labels)]
train_dataloader = DataLoader(dataset, shuffle=True, batch_size=16)

config = DistilBertConfig(vocab_size=80, dim=32, hidden_dim=64, n_layers=2, n_heads=2, num_labels=2)
model = DistilBertForSequenceClassification(config)
model.set_input_embeddings(torch.nn.Embedding(80, config.dim, padding_idx=0))
optimizer = AdamW(model.parameters(), lr=1e-3)

num_epochs = 3
num_training_steps = num_epochs * len(train_dataloader)
lr_scheduler = get_scheduler(
    "linear", optimizer=optimizer, num_warmup_steps=2, num_training_steps=num_training_steps
)

model.train()
for epoch in range(num_epochs):
    for batch in train_dataloader:
        outputs = model(**batch)
        loss = outputs.loss
        loss.backward()

        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
    print(f"epoch {epoch}: loss {loss.item():.4f}, lr {lr_scheduler.get_last_lr()[0]:.1e}")
