# /// script
# dependencies = ["trl", "transformers", "datasets", "tokenizers"]
# [tool.corpus]
# environment = "language"
# field = "reinforcement learning of language models"
# source = "https://huggingface.co/docs/trl/grpo_trainer"
# optimizer = true
# ///
"""GRPOTrainer rewards completions of a small Llama that use many different words."""

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer

set_seed(0)
words = "<pad> <eos> <unk> red green blue one two three four cat dog sun moon star".split()
backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
)
dataset = Dataset.from_list([{"prompt": "red green"}, {"prompt": "cat dog"}] * 8)


def reward_num_unique_words(completions, **kwargs):
    return [float(len(set(c.split()))) for c in completions]


model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=1,
    )
)
training_args = GRPOConfig(
    output_dir="grpo",
    learning_rate=1e-3,
    per_device_train_batch_size=4,
    num_generations=4,
    max_completion_length=6,
    max_steps=8,
    gradient_checkpointing=False,
    logging_steps=4,
    save_strategy="no",
    report_to="none",
    bf16=False,
    use_cpu=True,
    disable_tqdm=True,
)
trainer = GRPOTrainer(
    model=model,
    reward_funcs=reward_num_unique_words,
    args=training_args,
    train_dataset=dataset,
    processing_class=tokenizer,
)
trainer.train()
print(f"reward {trainer.state.log_history[0]['reward']:.2f}")
