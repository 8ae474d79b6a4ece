# /// script
# dependencies = ["transformers", "accelerate"]
# [tool.corpus]
# environment = "language"
# field = "translation"
# source = "https://huggingface.co/docs/accelerate/basic_tutorials/migration"
# optimizer = true
# kept_out = true
# ///
"""T5 learns to copy a sentence backwards, with Accelerate and a linear schedule."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import T5Config, T5ForConditionalGeneration, get_linear_schedule_with_warmup

torch.manual_seed(0)
NUM_EPOCHS = 2
GRADIENT_ACCUMULATION = 2


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=GRADIENT_ACCUMULATION)
    source = torch.randint(2, 30, (64, 6))
    train_dataloader = DataLoader(TensorDataset(source, source.flip(1)), batch_size=8)

    config = T5Config(vocab_size=32, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                      dropout_rate=0.0, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    steps_per_epoch = len(train_dataloader) // GRADIENT_ACCUMULATION
    lr_scheduler = get_linear_schedule_with_warmup(
        optimizer,
        num_warmup_steps=0,
        num_training_steps=steps_per_epoch * NUM_EPOCHS,
    )
    model, optimizer, train_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, lr_scheduler
    )

    model.train()
    for epoch in range(NUM_EPOCHS):
        for src, tgt in train_dataloader:
            with accelerator.accumulate(model):
                loss = model(input_ids=src, labels=tgt).loss
                accelerator.backward(loss)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
