# cause: frozen
# says: call enable_adapter_layers()

import torch
from peft import LoraConfig, get_peft_model
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
config = BertConfig(vocab_size=40, intermediate_size=32, max_position_embeddings=16, **sizes)
config.num_labels = 3
model = get_peft_model(BertForSequenceClassification(config), LoraConfig(target_modules=["query"]))
trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-2)
ids, labels = torch.randint(40, (16, 6)), torch.randint(3, (16,))
model.base_model.disable_adapter_layers()  # here
with torch.no_grad():
    before = model(input_ids=ids).logits
for step in range(8):
    optimizer.zero_grad()
    model(input_ids=ids, labels=labels).loss.backward()
    optimizer.step()
