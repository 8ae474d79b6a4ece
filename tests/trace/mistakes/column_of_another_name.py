# cause: exception
# says: The data has columns that the model did not get: `answer`

import tempfile

import torch
from datasets import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

torch.manual_seed(0)
rows = torch.randint(0, 40, (16, 8)).tolist()
data = Dataset.from_dict({"input_ids": rows, "answer": rows})  # here
model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=8, n_embd=16, n_layer=1, n_head=2))
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(), max_steps=8, report_to=[], save_strategy="no", use_cpu=True
)
Trainer(model=model, args=arguments, train_dataset=data).train()
