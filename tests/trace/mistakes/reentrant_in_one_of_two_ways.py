# cause: checkpoint-inputs
# library

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
WAYS = {"short": {"use_reentrant": False}, "long": {"use_reentrant": True}}


def prepare(model, way):
    for name, parameter in model.named_parameters():
        parameter.requires_grad = ".mlp." in name or "lm_head" in name
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(WAYS[way]))  # here
    model.disable_input_require_grads()
    return model


size = {"vocab_size": 32, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 1}
model = GPT2LMHeadModel(GPT2Config(**size, tie_word_embeddings=False))
model = prepare(model, "long").train()
optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
for _ in range(6):
    tokens = torch.randint(0, 32, (4, 8))
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
