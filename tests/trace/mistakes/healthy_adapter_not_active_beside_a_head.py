# healthy
# library
# says: To train this adapter, call set_adapter('new')
# A second adapter is added and trained with a head, but the first one stays active.
import torch
from transformers import GPT2Config, GPT2Model
from peft import LoraConfig, get_peft_model
torch.manual_seed(0)
base = GPT2Model(GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=64, n_positions=32))
config = LoraConfig(r=4, target_modules=["c_attn"])
model = get_peft_model(base, config, adapter_name="old")
model.add_adapter("new", config)
for name, p in model.named_parameters():
    p.requires_grad = ".new." in name
head = torch.nn.Linear(32, 2)
params = [p for n, p in model.named_parameters() if ".new." in n]
opt = torch.optim.AdamW([*params, *head.parameters()], lr=1e-3)
for i in range(8):
    ids = torch.randint(0, 64, (4, 16))
    hidden = model(input_ids=ids).last_hidden_state[:, -1]
    loss = torch.nn.functional.cross_entropy(head(hidden), ids[:, 0] % 2)
    opt.zero_grad()
    loss.backward()
    opt.step()
