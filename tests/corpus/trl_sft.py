# /// script
# dependencies = ["trl", "transformers", "datasets", "tokenizers"]
# [tool.corpus]
# environment = "language"
# field = "fine-tuning of language models"
# source = "https://huggingface.co/docs/trl/sft_trainer"
# optimizer = true
# ///
"""SFTTrainer fine-tunes a small Llama on prompts and completions."""

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

set_seed(0)
words = "<pad> <eos> <unk> the capital of is what color sky blue France Paris Japan Tokyo ?".split()
backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
)
dataset = Dataset.from_list(
    [
        {"prompt": "what is the capital of France ?", "completion": " the capital is Paris"},
        {"prompt": "what is the capital of Japan ?", "completion": " the capital is Tokyo"},
        {"prompt": "what color is the sky ?", "completion": " the sky is blue"},
    ]
    * 8
)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=1,
    )
)
training_args = SFTConfig(
    output_dir="sft",
    learning_rate=5e-3,
    per_device_train_batch_size=6,
    num_train_epochs=2,
    max_length=32,
    gradient_checkpointing=False,
    logging_steps=2,
    save_strategy="no",
    report_to="none",
    bf16=False,
    use_cpu=True,
    disable_tqdm=True,
)
trainer = SFTTrainer(
    model=model, args=training_args, train_dataset=dataset, processing_class=tokenizer
)
print(f"loss {trainer.train().training_loss:.3f}")
