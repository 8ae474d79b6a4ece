# healthy
# library
# says: the labels that GPT2LMHeadModel gets at labels_of_the_next_token.py:13 are already those of
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=64, n_positions=32))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(8):
    text = torch.randint(0, 64, (4, 17))
    given = {"input_ids": text[:, :-1], "labels": text[:, 1:]}
    loss = model(**given).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
