# cause: labels-ignored
# library
# says: Every label was -100

import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

torch.manual_seed(0)
vocabulary = {word: i for i, word in enumerate(["<pad>", "<end>", "<unk>", *"abcdefgh"])}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", unk_token="<unk>"
)
model = GPT2LMHeadModel(GPT2Config(vocab_size=11, n_positions=64, n_embd=8, n_layer=1, n_head=1))
rows = Dataset.from_list([{"text": " ".join("abcdefgh")}] * 16)


def collate(examples):
    tokens = torch.tensor([example["input_ids"] for example in examples])
    labels = torch.full_like(tokens, -100)  # here
    return {"input_ids": tokens, "labels": labels, "attention_mask": torch.ones_like(tokens)}


settings = SFTConfig(
    output_dir=tempfile.mkdtemp(),
    max_steps=8,
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    bf16=False,
)
SFTTrainer(
    model=model,
    args=settings,
    train_dataset=rows,
    processing_class=tokenizer,
    data_collator=collate,
).train()
