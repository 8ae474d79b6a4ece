# cause: zero
# library
# says: A product has a factor that is zero everywhere
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from peft import LoraConfig, get_peft_model
torch.manual_seed(0)
base = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=64, n_positions=32))
config = LoraConfig(r=4, target_modules=["c_attn"], task_type="CAUSAL_LM", lora_alpha=0)  # here
model = get_peft_model(base, config)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for i in range(8):
    ids = torch.randint(0, 64, (4, 16))
    loss = model(input_ids=ids, labels=ids).loss
    opt.zero_grad()
    loss.backward()
    opt.step()
