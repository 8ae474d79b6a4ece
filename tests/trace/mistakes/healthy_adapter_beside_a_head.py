# healthy
# library
# says: pass is_trainable=True
# says: healthy_adapter_beside_a_head.py:18

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(
    vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
)
lora = LoraConfig(r=2, target_modules=["query"])
get_peft_model(BertModel(config), lora).save_pretrained("adapter")

encoder = PeftModel.from_pretrained(BertModel(config), "adapter")  # perhaps on purpose
model = nn.ModuleDict({"encoder": encoder, "head": nn.Linear(16, 2)})
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tokens, labels = torch.randint(0, 64, (8, 6)), torch.randint(0, 2, (8,))
for step in range(8):
    optimizer.zero_grad()
    hidden = model["encoder"](input_ids=tokens).last_hidden_state.mean(1)
    nn.functional.cross_entropy(model["head"](hidden), labels).backward()
    optimizer.step()
