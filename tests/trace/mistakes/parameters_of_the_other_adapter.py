# cause: frozen
# library
# says: and 'medical' is active. Call set_adapter('medical') before the parameters are chosen
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

torch.manual_seed(0)
config = LoraConfig(r=2, target_modules=["0", "2"])
network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
model = get_peft_model(network, config, adapter_name="general")
model.add_adapter("medical", config)
learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(learning, lr=1e-2)  # here
model.set_adapter("medical")
for _ in range(8):
    optimizer.zero_grad()
    (model(torch.randn(16, 4)) - 1).square().mean().backward()
    optimizer.step()
