# cause: exception
# library
# says: No row of the data is left after its preparation, with `max_length=12`

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
story = " ".join("abcdefgh" * 3)
rows = Dataset.from_list([{"prompt": f"{story} ", "completion": letter} for letter in "abcdefgh"])
settings = SFTConfig(
    output_dir=tempfile.mkdtemp(),
    max_steps=8,
    max_length=12,  # here
    report_to=[],
    save_strategy="no",
    use_cpu=True,
    bf16=False,
)
SFTTrainer(model=model, args=settings, train_dataset=rows, processing_class=tokenizer).train()
