# healthy
# library
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
base = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=64, n_positions=32))
base.resize_token_embeddings(66)
config = LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM", modules_to_save=["wte"])
model = get_peft_model(base, config)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for _ in range(8):
    tokens = torch.randint(0, 66, (4, 16))
    loss = model(input_ids=tokens, labels=tokens).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
