"""Supervised fine-tuning with TRL (0.15 and newer), as its documentation has it; the tokenizer is made in code."""

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

words = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(60))]
backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=backend,
    pad_token="<pad>",
    bos_token="<s>",
    eos_token="</s>",
    unk_token="<unk>",
)

dataset = Dataset.from_dict({"text": [" ".join(f"w{(start + i) % 60}" for i in range(12)) for start in range(64)]})

model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
)

training_args = SFTConfig(
    output_dir="test_sft",
    num_train_epochs=2,
    per_device_train_batch_size=4,
    learning_rate=1e-3,
    logging_steps=8,
    use_cpu=True,
    bf16=False,
    report_to="none",
)
trainer = SFTTrainer(
    model=model,
    args=training_args,
    train_dataset=dataset,
    processing_class=tokenizer,
)
trainer.train()
