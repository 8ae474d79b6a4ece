# /// script
# dependencies = ["trl", "transformers", "datasets", "tokenizers", "peft"]
# [tool.corpus]
# environment = "language"
# field = "preference optimization"
# source = "https://huggingface.co/docs/trl/dpo_trainer"
# optimizer = true
# ///
"""DPOTrainer tunes LoRA adapters of a small GPT-2 on pairs of answers."""

from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, set_seed
from trl import DPOConfig, DPOTrainer

set_seed(0)
words = "<pad> <eos> <unk> hello how are you ? fine thanks go away good day to".split()
backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
)
dataset = Dataset.from_list(
    [
        {"prompt": "hello how are you ?", "chosen": " fine thanks", "rejected": " go away"},
        {"prompt": "good day to you", "chosen": " hello good day", "rejected": " go away you"},
    ]
    * 12
)
model = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=len(words), n_positions=32, n_embd=32, n_layer=2, n_head=2,
        bos_token_id=1, eos_token_id=1, pad_token_id=0,
    )
)
peft_config = LoraConfig(
    r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"
)
training_args = DPOConfig(
    output_dir="dpo",
    learning_rate=1e-2,
    beta=0.1,
    per_device_train_batch_size=4,
    num_train_epochs=2,
    gradient_checkpointing=False,
    logging_steps=3,
    save_strategy="no",
    report_to="none",
    bf16=False,
    use_cpu=True,
    disable_tqdm=True,
)
trainer = DPOTrainer(
    model=model,
    args=training_args,
    train_dataset=dataset,
    processing_class=tokenizer,
    peft_config=peft_config,
)
print(f"loss {trainer.train().training_loss:.3f}")
