# /// script
# dependencies = ["transformers"]
# [tool.corpus]
# environment = "language"
# field = "prompt tuning"
# source = "https://github.com/kipgparker/soft-prompt-tuning"
# optimizer = false
# kept_out = true
# ///
"""A soft prompt for a frozen OPT is learned with torch.autograd.grad and plain SGD."""

import torch
from transformers import OPTConfig, OPTForCausalLM

torch.manual_seed(0)
config = OPTConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, ffn_dim=64,
                   num_attention_heads=2, max_position_embeddings=64, word_embed_proj_dim=32,
                   dropout=0.0, attention_dropout=0.0)
model = OPTForCausalLM(config)
model.eval()
for p in model.parameters():
    p.requires_grad = False

wte = model.get_input_embeddings()
n_tokens = 6
soft_prompt = wte.weight[:n_tokens].clone().detach().requires_grad_(True)

text = torch.randint(4, 64, (1, 10)).repeat(4, 1)
lr = 2.0
for step in range(20):
    prompt = soft_prompt
    embeds = torch.cat([prompt.expand(len(text), -1, -1), wte(text)], dim=1)
    ignore = torch.full((len(text), n_tokens), -100)
    loss = model(inputs_embeds=embeds, labels=torch.cat([ignore, text], dim=1)).loss
    (grad,) = torch.autograd.grad(loss, [soft_prompt])
    with torch.no_grad():
        soft_prompt -= lr * grad
    if step % 5 == 0:
        print(step, loss.item(), grad.norm().item())
