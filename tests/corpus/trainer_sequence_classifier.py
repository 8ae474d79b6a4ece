# /// script
# dependencies = ["transformers", "accelerate"]
# [tool.corpus]
# environment = "language"
# field = "text classification"
# source = "https://huggingface.co/docs/transformers/main_classes/trainer"
# optimizer = true
# ///
"""A Trainer with an own compute_loss trains a small BERT classifier with class weights."""

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from transformers import set_seed

set_seed(1)
sentences = torch.randint(5, 100, (64, 12))
targets = (sentences[:, 1] > 50).long() + (sentences[:, 2] > 50).long()
train_dataset = [{"input_ids": s, "labels": t} for s, t in zip(sentences, targets)]


class CustomTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        # forward pass
        outputs = model(**inputs)
        logits = outputs.get("logits")
        # compute custom loss for 3 labels with different weights
        loss_fct = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
        loss = loss_fct(logits.view(-1, model.config.num_labels), labels.view(-1))
        return (loss, outputs) if return_outputs else loss


config = BertConfig(
    vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=64, max_position_embeddings=16, num_labels=3,
)
model = BertForSequenceClassification(config)
args = TrainingArguments(
    output_dir="classifier",
    learning_rate=1e-3,
    per_device_train_batch_size=16,
    num_train_epochs=3,
    logging_steps=4,
    save_strategy="no",
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
)
trainer = CustomTrainer(model=model, args=args, train_dataset=train_dataset)
print(f"loss {trainer.train().training_loss:.3f}")
