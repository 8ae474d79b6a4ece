# /// script
# dependencies = ["transformers"]
# [tool.corpus]
# environment = "language"
# field = "sequence to sequence"
# source = "https://huggingface.co/docs/transformers/model_doc/t5#training"
# optimizer = true
# ///
"""A small T5 learns to copy the first tokens of its input, in a plain loop with Adafactor."""

import torch
from transformers import Adafactor, T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
config = T5Config(
    vocab_size=60, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2,
    dropout_rate=0.0, decoder_start_token_id=0, pad_token_id=0,
)
model = T5ForConditionalGeneration(config)
model.train()
optimizer = Adafactor(
    model.parameters(), lr=1e-2, scale_parameter=False, relative_step=False, warmup_init=False
)

for step in range(12):
    input_ids = torch.randint(2, 60, (8, 16))
    attention_mask = torch.ones_like(input_ids)
    labels = input_ids[:, :6].clone()
    labels[:, 4:] = config.pad_token_id
    # replace padding token id's of the labels by -100 so it's ignored by the loss
    labels[labels == config.pad_token_id] = -100

    outputs = model(input_ids=input_ids, attention_mask=attention_mask, labels=labels)
    loss = outputs.loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
