"""A training loop with Accelerate, as its documentation has it: `accelerate launch` or `python` runs it."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    model = BertForSequenceClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=100)
    data = TensorDataset(torch.randint(3, 100, (256, 12)), torch.randint(2, (256,)))
    training_dataloader = DataLoader(data, batch_size=8, shuffle=True)

    model, optimizer, training_dataloader, scheduler = accelerator.prepare(
        model, optimizer, training_dataloader, scheduler
    )

    model.train()
    for epoch in range(2):
        for inputs, targets in training_dataloader:
            with accelerator.accumulate(model):
                optimizer.zero_grad()
                loss = model(input_ids=inputs, labels=targets).loss
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
        accelerator.print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
