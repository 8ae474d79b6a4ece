# healthy
# library
# says: every end token that GPT2LMHeadModel got at end_token_ignored.py:23 is left out of the loss
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
END = 0
config = GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=64, n_positions=32, eos_token_id=END)
model = GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def batch():
    tokens, length = torch.randint(1, 64, (4, 16)), torch.randint(4, 16, (4, 1))
    tokens[torch.arange(16) >= length] = END
    return {"input_ids": tokens, "attention_mask": (torch.arange(16) <= length).long()}


for _ in range(8):
    given = batch()
    labels = given["input_ids"].masked_fill(given["input_ids"] == END, -100)
    loss = model(**given, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
