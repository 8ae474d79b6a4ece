# /// script
# dependencies = ["transformers", "datasets", "accelerate"]
# [tool.corpus]
# environment = "language"
# field = "token classification"
# source = "https://huggingface.co/docs/transformers/tasks/token_classification"
# optimizer = true
# kept_out = true
# ///
"""BERT learns to tag tokens with the Trainer; sub-word pieces after the first are ignored."""

import random
import tempfile

from datasets import Dataset
from transformers import (
    BertConfig,
    BertForTokenClassification,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

set_seed(0)
label_list = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def make_example():
    # two pieces for a word now and then, [CLS] in front and [SEP] at the end, as a tokenizer does
    word_ids, input_ids, tags = [None], [2], []
    while len(input_ids) < 15:
        tag = random.randrange(len(label_list))
        tags.append(tag)
        for _ in range(random.choice([1, 1, 2])):
            word_ids.append(len(tags) - 1)
            input_ids.append(10 + 5 * random.randrange(10) + tag)
    return {
        "input_ids": input_ids[:15] + [3],
        "word_ids": word_ids[:15] + [None],
        "ner_tags": tags,
    }


def align_labels(example):
    labels = []
    previous_word_idx = None
    for word_idx in example["word_ids"]:
        if word_idx is None:
            labels.append(-100)
        elif word_idx != previous_word_idx:
            labels.append(example["ner_tags"][word_idx])
        else:
            labels.append(-100)
        previous_word_idx = word_idx
    return {"input_ids": example["input_ids"], "labels": labels}


train_dataset = Dataset.from_list([align_labels(make_example()) for _ in range(64)])
config = BertConfig(
    vocab_size=64,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    num_labels=len(label_list),
)
model = BertForTokenClassification(config)

training_args = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    learning_rate=2e-3,
    per_device_train_batch_size=8,
    num_train_epochs=2,
    weight_decay=0.01,
    logging_steps=4,
    report_to="none",
    save_strategy="no",
    use_cpu=True,
    disable_tqdm=True,
)
trainer = Trainer(
    model=model,
    args=training_args,
    train_dataset=train_dataset,
    data_collator=default_data_collator,
)
trainer.train()
