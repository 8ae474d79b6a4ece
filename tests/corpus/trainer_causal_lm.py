# /// script
# dependencies = ["transformers", "accelerate"]
# [tool.corpus]
# environment = "language"
# field = "language models"
# source = "https://huggingface.co/docs/transformers/tasks/language_modeling"
# optimizer = true
# ///
"""The Trainer of transformers trains a small GPT-2 on blocks of token ids."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(0)
block_size = 24
stream = (torch.arange(40 * block_size) * 7 + torch.arange(40 * block_size) // 5) % 64
lm_dataset = [
    {"input_ids": block, "labels": block.clone()} for block in stream.view(-1, block_size)
]

config = GPT2Config(
    vocab_size=64, n_positions=block_size, n_embd=32, n_layer=2, n_head=2,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
)
model = GPT2LMHeadModel(config)

training_args = TrainingArguments(
    output_dir="my_model",
    learning_rate=2e-3,
    per_device_train_batch_size=8,
    num_train_epochs=3,
    weight_decay=0.01,
    logging_steps=5,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
)

trainer = Trainer(model=model, args=training_args, train_dataset=lm_dataset)
result = trainer.train()
print(f"loss {result.training_loss:.3f}")
