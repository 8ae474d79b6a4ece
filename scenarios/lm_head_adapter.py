"""A LoRA adapter on lm_head, and losses that read lm_head.weight and go past it.

A fused or chunked loss does not call `lm_head`. It takes the hidden states and `lm_head.weight`. If
PEFT has put a LoRA adapter on `lm_head`, that weight is the frozen one: the adapter adds nothing to
the loss and gets no gradient. TRL issue 4612 reports it of GRPOTrainer with Liger's loss, TRL pull
request 5977 refuses the combination. Pull request 5676 lets the chunked loss of SFTTrainer run with
PEFT; an adapter on `lm_head` is refused there (pull request 5857).

- `plain_weight` is the fault without a trainer. `plain_module` calls the head. `plain_saved` trains
  a copy of the head (`modules_to_save`) in place of an adapter.
- `sft`, `dpo`, `grpo`: TRL's trainers as they are, with LoRA on the attention only (`attention`),
  on `lm_head` too (`lm_head`), with a copy of the head (`saved`), and with `all-linear`.
- `stand_in`: GRPO and DPO with `use_liger_kernel=True` (`use_liger_loss` where TRL has it). Liger's
  package is not there. In the place of its losses stand the same losses in plain PyTorch. What is
  tested is TRL's part: which weight it hands over. TRL 1.16 has a fused loss of its own and does
  not ask for the stand-in. By hand, TRL 0.19.1 with the real loss of Liger-Kernel 0.6.2 on a CPU:
  in 4 steps of GRPO the adapter on `lm_head` did not change, the others did.

What the measurement shows (CPU; TRL 0.4.4 to 1.16.0)

- `plain_weight`: gradient:partial on every stack; nothing raises or warns. With `modules_to_save`
  the weight is that of the copy, and it trains. With PEFT 0.3.0 the wrapper of the copy has no
  `weight`, and the original of the head stays trainable and gets no gradient (`sft_saved`).
- TRL 0.4.4 to 1.0.0 without a fused loss: the trainers call `lm_head`, and its adapter trains.
- With a fused loss: GRPO leaves the adapter without a gradient in silence, TRL 0.19.1 to 1.0.0. DPO
  does so up to 0.27.2; with 1.0.0 it refuses every PEFT model.
- TRL 1.16.0: all three refuse an adapter on `lm_head`, with and without `use_liger_kernel`: their
  default loss reads the weight as well. LoRA on the attention trains, with the fused loss of DPO
  too, and so does the copy of the head.
- `all-linear` is not refused: PEFT leaves the head out of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import sys
import tempfile
import types
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainingArguments

NEEDS = ("torch", "transformers", "peft")

VARIANTS = {
    "plain_forward": {
        "role": "control",
        "summary": "no trainer: the model's own logits",
    },
    "plain_weight": {
        "role": "reported",
        "summary": "no trainer: hidden @ lm_head.weight.T, as a fused loss reads it",
    },
    "plain_module": {"role": "remedy", "summary": "no trainer: call the head, lm_head(hidden)"},
    "plain_saved": {
        "role": "remedy",
        "summary": "plain_weight with modules_to_save=['lm_head'] in place of LoRA on lm_head",
    },
    "sft_attention": {
        "role": "control",
        "summary": "SFTTrainer, LoRA on the attention only",
        "needs": ("trl",),
    },
    "sft_lm_head": {
        "role": "reported",
        "summary": "SFTTrainer, LoRA on the attention and lm_head",
        "needs": ("trl",),
    },
    "sft_saved": {
        "role": "reported",
        "summary": "SFTTrainer, LoRA on the attention, modules_to_save=['lm_head']",
        "needs": ("trl",),
    },
    "sft_all_linear": {
        "role": "reported",
        "summary": "SFTTrainer, target_modules='all-linear'",
        "needs": ("trl", "peft>=0.8"),
    },
    "dpo_attention": {
        "role": "control",
        "summary": "DPOTrainer, LoRA on the attention only",
        "needs": ("trl>=0.12",),
    },
    "dpo_lm_head": {
        "role": "reported",
        "summary": "DPOTrainer, LoRA on the attention and lm_head",
        "needs": ("trl>=0.12",),
    },
    "dpo_saved": {
        "role": "reported",
        "summary": "DPOTrainer, LoRA on the attention, modules_to_save=['lm_head']",
        "needs": ("trl>=0.12",),
    },
    "dpo_stand_in": {
        "role": "reported",
        "summary": "dpo_lm_head with use_liger_kernel (_loss); a stand-in has its place",
        "needs": ("trl>=0.18",),
    },
    "dpo_stand_in_attention": {
        "role": "reported",
        "summary": "dpo_attention with use_liger_kernel (_loss); a stand-in has its place",
        "needs": ("trl>=0.18",),
    },
    "grpo_attention": {
        "role": "control",
        "summary": "GRPOTrainer, LoRA on the attention only",
        "needs": ("trl>=0.14",),
    },
    "grpo_lm_head": {
        "role": "reported",
        "summary": "GRPOTrainer, LoRA on the attention and lm_head",
        "needs": ("trl>=0.14",),
    },
    "grpo_saved": {
        "role": "reported",
        "summary": "GRPOTrainer, LoRA on the attention, modules_to_save=['lm_head']",
        "needs": ("trl>=0.14",),
    },
    "grpo_stand_in": {
        "role": "reported",
        "summary": "grpo_lm_head with use_liger_kernel (_loss); a stand-in has its place",
        "needs": ("trl>=0.18",),
    },
    "grpo_stand_in_attention": {
        "role": "control",
        "summary": "grpo_attention with use_liger_kernel (_loss); a stand-in has its place",
        "needs": ("trl>=0.18",),
    },
    "grpo_stand_in_saved": {
        "role": "reported",
        "summary": "grpo_saved with use_liger_kernel (_loss); a stand-in has its place",
        "needs": ("trl>=0.18",),
    },
}

AGREE = [
    ("plain_forward", "plain_module"),
    ("sft_attention", "sft_lm_head", {"only": "first loss"}),
    ("sft_attention", "sft_saved", {"only": "first loss"}),
    ("dpo_attention", "dpo_stand_in_attention", {"only": "first loss"}),
    ("grpo_attention", "grpo_stand_in_attention", {"only": "first loss"}),
]

SPECIAL = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>"}
WORDS = 28
ATTENTION = ["q_proj", "v_proj"]
GENERATIONS = 4


def train(variant: str, device: str, steps: int) -> None:
    """Train what ``variant`` names for ``steps`` optimizer steps."""
    torch.manual_seed(0)
    how, _, where = variant.partition("_")
    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    if how == "plain":
        plain_loop(where, model.to(device), steps)
        return
    fused = where.startswith("stand_in")
    if fused:
        put_stand_in()
        where = where[len("stand_in_") :] or "lm_head"
    with tempfile.TemporaryDirectory() as folder:
        arguments = {**make_arguments(folder, device, steps), "fused": fused}
        TRAINERS[how](model, tokenizer, lora(where), arguments).train()


def lora(where: str) -> LoraConfig:
    """LoRA on the attention, and what ``where`` adds."""
    options: dict[str, Any] = {
        "attention": {"target_modules": ATTENTION},
        "lm_head": {"target_modules": [*ATTENTION, "lm_head"]},
        "saved": {"target_modules": ATTENTION, "modules_to_save": ["lm_head"]},
        "all_linear": {"target_modules": "all-linear"},
    }[where]
    return LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=8, lora_dropout=0.0, **options)


def plain_loop(head: str, model: torch.nn.Module, steps: int) -> None:
    """Train without a trainer; ``head`` says how the logits are made."""
    model = get_peft_model(model, lora("saved" if head == "saved" else "lm_head"))
    ids = torch.randint(len(SPECIAL), WORDS, (4, 12)).to(next(model.parameters()).device)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    model.train()
    for _ in range(steps):
        if head == "forward":
            logits = model(input_ids=ids).logits
        else:
            base = model.get_base_model()
            hidden = base.model(input_ids=ids).last_hidden_state
            logits = base.lm_head(hidden) if head == "module" else hidden @ base.lm_head.weight.T
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def sft_trainer(model: Any, tokenizer: Any, config: LoraConfig, arguments: dict[str, Any]) -> Any:
    """TRL's SFTTrainer."""
    import trl
    from datasets import Dataset

    arguments.pop("fused")
    text = [sentence(start, 8) for start in range(8)]
    options: dict[str, Any] = {}
    if "dataset_text_field" in inspect.signature(trl.SFTTrainer).parameters:  # before 0.13
        options = {"dataset_text_field": "text", "max_seq_length": 8}
    return trl.SFTTrainer(
        model=model,
        args=getattr(trl, "SFTConfig", TrainingArguments)(**arguments),
        train_dataset=Dataset.from_dict({"text": text}),
        peft_config=config,
        **{name_of_tokenizer(trl.SFTTrainer): tokenizer},
        **options,
    )


def dpo_trainer(model: Any, tokenizer: Any, config: LoraConfig, arguments: dict[str, Any]) -> Any:
    """TRL's DPOTrainer."""
    import trl
    from datasets import Dataset

    fuse(trl.DPOConfig, arguments)
    rows = {
        "prompt": [sentence(start, 3) for start in range(8)],
        "chosen": [" " + sentence(start + 3, 3) for start in range(8)],
        "rejected": [" " + sentence(start + 9, 3) for start in range(8)],
    }
    return trl.DPOTrainer(
        model=model,
        args=trl.DPOConfig(**arguments),
        train_dataset=Dataset.from_dict(rows),
        processing_class=tokenizer,
        peft_config=config,
    )


def grpo_trainer(model: Any, tokenizer: Any, config: LoraConfig, arguments: dict[str, Any]) -> Any:
    """TRL's GRPOTrainer, without a reference model."""
    import trl
    from datasets import Dataset

    fuse(trl.GRPOConfig, arguments)
    return trl.GRPOTrainer(
        model=model,
        reward_funcs=mean_word,
        args=trl.GRPOConfig(
            **arguments, num_generations=GENERATIONS, max_completion_length=6, beta=0.0
        ),
        train_dataset=Dataset.from_dict({"prompt": [sentence(start, 4) for start in range(8)]}),
        processing_class=tokenizer,
        peft_config=config,
    )


TRAINERS = {"sft": sft_trainer, "dpo": dpo_trainer, "grpo": grpo_trainer}


def fuse(config: type, arguments: dict[str, Any]) -> None:
    """Switch the fused loss on, by the name that this release has for it."""
    if arguments.pop("fused"):
        names = {field.name for field in dataclasses.fields(config)}
        arguments["use_liger_loss" if "use_liger_loss" in names else "use_liger_kernel"] = True


def put_stand_in() -> None:
    """Let TRL find losses in plain PyTorch where it looks for those of Liger's package."""
    import transformers.trainer
    from trl.trainer import dpo_trainer, grpo_trainer

    places = [dpo_trainer, grpo_trainer, transformers.trainer]
    places.append(sys.modules.get("transformers.integrations.liger"))
    for place in places:
        if hasattr(place, "is_liger_kernel_available"):
            place.is_liger_kernel_available = lambda *_: True
    dpo_trainer.LigerFusedLinearDPOLoss = PlainDPOLoss
    grpo_trainer.LigerFusedLinearGRPOLoss = PlainGRPOLoss
    layers = types.ModuleType("liger_kernel.transformers")
    layers.__dict__["_apply_liger_kernel_to_instance"] = lambda **_: None  # layers stay as they are
    sys.modules["liger_kernel"] = types.ModuleType("liger_kernel")
    sys.modules["liger_kernel.transformers"] = layers


class PlainGRPOLoss:
    """The loss of GRPO from hidden states and the weight of the head."""

    def __init__(self, **_: Any) -> None:
        pass

    def __call__(
        self,
        _input: torch.Tensor,
        lin_weight: torch.Tensor,
        selected_token_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        advantages: torch.Tensor,
        **_: Any,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Return the loss and the share of clipped tokens, which is 0 on fresh completions."""
        chosen = log_probs(_input, lin_weight, selected_token_ids)
        ratio = (chosen - chosen.detach()).exp()
        loss = -(ratio * advantages[:, None] * attention_mask).sum() / attention_mask.sum()
        return loss, [torch.zeros(())]


class PlainDPOLoss:
    """The loss of DPO from hidden states and the weights of the heads."""

    def __init__(self, **options: Any) -> None:
        self.beta = options.get("beta", 0.1)

    def __call__(
        self,
        weight: torch.Tensor,
        hidden: torch.Tensor,
        labels: torch.Tensor,
        **others: Any,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
        """Return the loss, and the numbers that TRL logs."""
        kept = labels != -100
        labels = labels.clamp(min=0)
        chosen, rejected = (log_probs(hidden, weight, labels) * kept).sum(-1).chunk(2)
        with torch.no_grad():
            of_reference = log_probs(others["ref_input"], others["ref_weight"], labels)
            reference = (of_reference * kept).sum(-1).chunk(2)
        rewards = self.beta * (chosen - reference[0]), self.beta * (rejected - reference[1])
        loss = -torch.nn.functional.logsigmoid(rewards[0] - rewards[1]).mean()
        nothing = torch.zeros(())
        return loss, (chosen, rejected, nothing, nothing, nothing, *rewards)


def log_probs(hidden: torch.Tensor, weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """The log-probabilities of ``ids``, from the weight of the head."""
    return (hidden @ weight.T).log_softmax(-1).gather(-1, ids[..., None]).squeeze(-1)


def make_arguments(folder: str, device: str, steps: int) -> dict[str, Any]:
    """What all trainers get: constant rate, no clipping, no checkpointing, no reports."""
    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    return {
        "output_dir": folder,
        "max_steps": steps,
        "per_device_train_batch_size": GENERATIONS,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        "gradient_checkpointing": False,
        "bf16": False,
        "seed": 0,
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "use_cpu" if "use_cpu" in known else "no_cuda": device == "cpu",
    }


def name_of_tokenizer(trainer: type) -> str:
    """The argument that takes the tokenizer: `tokenizer` before TRL 0.12."""
    parameters = inspect.signature(trainer).parameters
    return "processing_class" if "processing_class" in parameters else "tokenizer"


def make_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A Llama of two layers, its head not tied to the embeddings."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        initializer_range=0.2,  # completions then depend on what stands before them
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer of the words w0, w1, ... and the special tokens a trainer asks for."""
    words = [*SPECIAL.values(), *(f"w{i}" for i in range(WORDS))]
    tokens = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    tokens.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        **SPECIAL,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


def sentence(start: int, words: int) -> str:
    """Words in the order of their numbers."""
    return " ".join(f"w{(start + i) % WORDS}" for i in range(words))


def mean_word(completions: list[str], **_: Any) -> list[float]:
    """Reward words of a high number, so that no two completions of a group get the same."""
    rewards = []
    for completion in completions:
        numbers = [int(word[1:]) for word in completion.split() if word.startswith("w")]
        rewards.append(sum(numbers) / max(len(numbers), 1))
    return rewards


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
