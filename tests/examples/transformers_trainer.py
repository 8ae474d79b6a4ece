"""Fine-tuning with transformers.Trainer, as its documentation has it; the model is made from a configuration."""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Reviews(torch.utils.data.Dataset):
    def __init__(self, rows):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(3, 100, (rows, 12), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        return {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "labels": int(tokens.sum()) % 2,
        }


def compute_metrics(eval_pred):
    logits, labels = eval_pred
    return {"accuracy": float((logits.argmax(axis=-1) == labels).mean())}


config = BertConfig(
    vocab_size=100,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=64,
    num_labels=2,
)
model = BertForSequenceClassification(config)

training_args = TrainingArguments(
    output_dir="test_trainer",
    num_train_epochs=2,
    per_device_train_batch_size=8,
    gradient_accumulation_steps=2,
    learning_rate=1e-3,
    logging_steps=5,
    report_to="none",
)
trainer = Trainer(
    model=model,
    args=training_args,
    train_dataset=Reviews(160),
    eval_dataset=Reviews(32),
    compute_metrics=compute_metrics,
)
trainer.train()
print(trainer.evaluate())
