"""A causal language model with nothing to learn: frozen, lost, NaN, or not in the optimizer.

MedicalGPT issue 359 (DPO on a LoRA model): "UserWarning: None of the inputs have
requires_grad=True. Gradients will be None", a learning rate shown as 0, rewards NaN. People read it
as frozen parameters, data without a gradient or a learning rate of 0; the maintainer's answer was
"use float32". transformers issue 42489 (2025-11): the Trainer does not ask for input gradients on a
model made by `get_peft_model`, so LoRA with checkpointing fails. TRL issue 2486: DPO with LoRA.

`healthy` and `lora` are the controls. Misuse, which ought to be pointed out: `all_frozen`,
`all_frozen_checkpointing`, `lr_zero`, `other_parameters`, `rewrapped_loss` (a new leaf made of the
loss's value), and `all_frozen_input_grads`, which uses the remedy where it does not belong.
Reported: reentrant checkpointing of layers whose input needs no gradient
(`frozen_embeddings_reentrant`, `lora_reentrant`, `dpo_lora_reentrant`), and `half_weights`.
Remedies: `input_grads`, and for `half_weights` `float32_weights`, `bfloat16_weights` and
`half_weights_eps`. Transformers before 4.35 has reentrant checkpointing only.

Ways to look for it: `lora_checked` and `all_frozen_checked` count the parameters that require a
gradient, `lora_hooked` and `frozen_embeddings_hooked` put a hook on each of them, `dpo_logged`
prints the learning rate and the rewards that DPO logs.

`uneven_8x1`, `uneven_4x2`, `uneven_2x4` (transformers PR 34191): the same 8 rows in 1, 2 and 4
accumulated batches, which must not change the gradient.

What the measurement shows
(CPU; torch 2.0.1 to 2.15.0, transformers 4.29.2 to 5.23.0, peft 0.3.0 to 0.21.2)

- The reported warning proves nothing. With TRL 0.8.6 to 0.27.2 `dpo_lora_reentrant` prints it and
  trains: it comes from the reference model's forward under no_grad, at the second layer. TRL 1.0.0
  and 1.16.0, which switch checkpointing off for that forward, print nothing. TRL 0.6.0 to 0.7.1
  print it and fail: they do not ask for input gradients. TRL 0.9.6 with transformers 4.46.1 fails
  for another reason: both define `get_batch_samples`.
- The same warning, without an error, is serious with `frozen_embeddings_reentrant`: up to
  transformers 4.57.6 only the last norm and lm_head learn, 18 of 20 tensors have no gradient, and
  the loss still falls from 4.16 to 1.10. LoRA has nothing after the layers, hence its error.
- transformers 5 asks for input gradients itself (tried: 5.0.0, 5.4.0, 5.23.0): both variants train.
  The price: `all_frozen_checkpointing`, an error up to 4.57.6, now runs to its end and trains
  nothing, without a word. `all_frozen_input_grads` does so on every release: the remedy gives
  the loss a grad_fn, whether or not anything can learn.
- `lr_zero` and `other_parameters` are silent everywhere. `rewrapped_loss` is silent but for
  transformers 4.46.1, where the Trainer happens to scale the loss in place, which a leaf forbids.
- `half_weights`: the loss is NaN from step 2. Adam's second moment and its eps of 1e-8 are both 0
  in fp16, so the first step divides by 0: inf, or NaN where the first moment is 0 too. The forward
  and the gradients were fine. "Use float32" cures it; so do bf16, and eps=1e-4 in fp16.
  torch 2.0.1 has no fp16 matrix product on CPU: an exception, also for `half_weights_eps`.
- The first loss is 4.16, but 3.90 with transformers 4.49.0 to 5.4.0, which is 60/64 of it: the
  Trainer divides the sum over 60 predicted tokens by the number of labels, 64.
- `uneven_4x2` and `uneven_2x4` disagree with `uneven_8x1` up to transformers 4.39.3: each batch has
  a mean of its own, so that a short row counts for more. From 4.46.1 on (PR 34191) they agree. But
  with 5.4.0 losses and gradients are exactly a half and a quarter: the Trainer tells Accelerate how
  many batches it accumulates, and `accelerator.backward` divides by that once more. AdamW hides it,
  clipping and SGD do not. By the source, 5.2.0 to 5.5.0 do so, 5.1.0 and 5.6.0 do not.
- A fresh LoRA's first loss is its base model's to the last digit. That of bf16 weights is 1e-5 from
  that of fp32; with transformers 4.29 and 4.30, which take the loss in bf16, 1e-3.
- The check of `requires_grad` finds a frozen model, 0 of 21. LoRA has 8 of 29 where it fails, as it
  has where it trains. The hooks count what came: 2 of 20 with frozen embeddings, 0 of 8 with LoRA,
  up to transformers 4.57.6; not why.
- DPO in fp32 logs the learning rate that was set, and finite rewards, whether or not it warns. The
  learning rate shown as 0 was not reproduced. Not measured: CUDA.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
import tempfile
import warnings
from typing import TYPE_CHECKING, Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_utils import IntervalStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDS = ("torch", "transformers>=4.29", "accelerate")

VARIANTS = {
    "healthy": {
        "role": "control",
        "summary": "train all of the model: its own loss, a learning rate above 0, "
        "the Trainer's AdamW",
    },
    "all_frozen": {"role": "misuse", "summary": "every parameter frozen"},
    "all_frozen_checkpointing": {
        "role": "misuse",
        "summary": "every parameter frozen, gradient checkpointing with use_reentrant=True",
    },
    "all_frozen_input_grads": {
        "role": "misuse",
        "summary": "every parameter frozen, enable_input_require_grads()",
    },
    "lr_zero": {"role": "misuse", "summary": "learning rate 0"},
    "other_parameters": {
        "role": "misuse",
        "summary": "the optimizer holds the parameters of another, identical model",
    },
    "rewrapped_loss": {
        "role": "misuse",
        "summary": "compute_loss returns torch.tensor(loss.item(), requires_grad=True)",
    },
    "frozen_embeddings_reentrant": {
        "role": "reported",
        "summary": "only the input embeddings frozen, checkpointing with use_reentrant=True",
    },
    "lora_reentrant": {
        "role": "reported",
        "summary": "LoRA, checkpointing with use_reentrant=True",
        "needs": ("torch", "transformers>=4.29", "accelerate", "peft>=0.3"),
    },
    "input_grads": {
        "role": "remedy",
        "summary": "call model.enable_input_require_grads() on the LoRA model",
        "needs": ("torch", "transformers>=4.29", "accelerate", "peft>=0.3"),
        "cures": ("checkpoint-inputs",),
    },
    "lora": {
        "role": "control",
        "summary": "train LoRA without gradient checkpointing",
        "needs": ("torch", "transformers>=4.29", "accelerate", "peft>=0.3"),
        "cures": ("checkpoint-inputs",),
    },
    "dpo_lora_reentrant": {
        "role": "reported",
        "summary": "TRL's DPOTrainer on a LoRA model, checkpointing with use_reentrant=True",
        "needs": ("torch", "transformers>=4.30", "accelerate", "peft>=0.3", "trl>=0.6", "datasets"),
    },
    "dpo_logged": {
        "role": "reported",
        "summary": "dpo_lora_reentrant, printing the learning rate and the rewards that it logs",
        "needs": ("torch", "transformers>=4.30", "accelerate", "peft>=0.3", "trl>=0.6", "datasets"),
    },
    "half_weights": {"role": "reported", "summary": "fp16 weights, torch.optim.AdamW"},
    "float32_weights": {
        "role": "remedy",
        "summary": "keep the weights in fp32",
        "cures": ("nonfinite-update",),
    },
    "bfloat16_weights": {
        "role": "remedy",
        "summary": "keep the weights in bf16, which has the range of fp32",
        "cures": ("nonfinite-update",),
    },
    "half_weights_eps": {
        "role": "remedy",
        "summary": "give AdamW an eps of 1e-4, which fp16 can hold",
        "cures": ("nonfinite-update",),
    },
    "lora_checked": {
        "role": "reported",
        "summary": "lora_reentrant, and count the parameters that require a gradient before",
        "needs": ("torch", "transformers>=4.29", "accelerate", "peft>=0.3"),
    },
    "all_frozen_checked": {
        "role": "misuse",
        "summary": "all_frozen_checkpointing with the same count",
    },
    "lora_hooked": {
        "role": "reported",
        "summary": "lora_reentrant, and watch the gradients with hooks",
        "needs": ("torch", "transformers>=4.29", "accelerate", "peft>=0.3"),
    },
    "frozen_embeddings_hooked": {
        "role": "reported",
        "summary": "frozen_embeddings_reentrant with the same hooks",
    },
    "uneven_8x1": {"role": "control", "summary": "8 rows with 4 to 32 labels in one batch"},
    "uneven_4x2": {"role": "reported", "summary": "these rows in 2 accumulated batches of 4"},
    "uneven_2x4": {"role": "reported", "summary": "these rows in 4 accumulated batches of 2"},
}

AGREE = [
    ("healthy", "float32_weights"),
    ("float32_weights", "bfloat16_weights", {"only": "first loss", "rtol": 0.004}),  # 2 ** -8
    ("float32_weights", "half_weights_eps", {"only": "first loss"}),  # another eps, another update
    ("healthy", "lora", {"only": "first loss"}),  # a fresh adapter adds zero
    ("lora", "lora_reentrant"),
    ("lora", "input_grads"),
    ("lora", "lora_checked"),
    ("lora", "lora_hooked"),
    ("uneven_8x1", "uneven_4x2"),
    ("uneven_8x1", "uneven_2x4"),
    ("uneven_4x2", "uneven_2x4"),
]

VOCABULARY = 64
LEARNING_RATE = 1e-2
DTYPES = {  # variants which bring their own torch.optim.AdamW
    "half_weights": torch.float16,
    "half_weights_eps": torch.float16,
    "bfloat16_weights": torch.bfloat16,
    "float32_weights": torch.float32,
}
CHECKPOINTED = ("reentrant", "checkpointing", "checked", "hooked")  # how their names end
BATCHES = {"uneven_8x1": (8, 1), "uneven_4x2": (4, 2), "uneven_2x4": (2, 4)}  # rows, accumulated

Row = dict[str, Any]


class RewrappedLossTrainer(Trainer):
    """Silences "does not require grad" as forum answers do: a new leaf made of the loss's value."""

    def compute_loss(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Loses the graph."""
        loss = super().compute_loss(*args, **kwargs)
        return torch.tensor(loss.item(), requires_grad=True)


def make_model(device: str, dtype: torch.dtype = torch.float32) -> LlamaForCausalLM:
    """Two layers, untied lm_head: every parameter takes part in the loss."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        use_cache=False,  # incompatible with checkpointing
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config).to(device=device, dtype=dtype)


def make_optimizer(model: torch.nn.Module, eps: float = 1e-8) -> torch.optim.Optimizer:
    """What the Trainer makes of ``make_arguments``, made by hand."""
    return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, eps=eps, weight_decay=0.0)


def add_lora(model: LlamaForCausalLM) -> torch.nn.Module:
    """Freezes the model and adds adapters to its attention."""
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        task_type="CAUSAL_LM",
        r=4,
        lora_alpha=8,
        lora_dropout=0.0,
        target_modules=["q_proj", "v_proj"],
    )
    return get_peft_model(model, config)


def make_arguments(
    folder: str,
    device: str,
    steps: int,
    *,
    reentrant: bool = False,
    learning_rate: float = LEARNING_RATE,
    batches: tuple[int, int] = (4, 1),
    kind: type = TrainingArguments,
    **options: Any,
) -> TrainingArguments:
    """The same arguments on every release: constant rate, no warm-up, nothing written."""
    known = inspect.signature(kind.__init__).parameters
    options.update(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=batches[0],
        gradient_accumulation_steps=batches[1],
        max_grad_norm=0.0,  # no clipping: it would hide a gradient of the wrong size
        learning_rate=learning_rate,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        optim="adamw_torch",
        bf16=False,  # TRL's default is True
        gradient_checkpointing=reentrant,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        seed=0,
    )
    if reentrant and "gradient_checkpointing_kwargs" in known:  # before: the only kind there is
        options["gradient_checkpointing_kwargs"] = {"use_reentrant": True}
    if device == "cpu":
        options["use_cpu" if "use_cpu" in known else "no_cuda"] = True
    return kind(**options)


def make_rows() -> list[Row]:
    """One batch of random tokens, the same at every step."""
    tokens = torch.randint(3, VOCABULARY, (4, 16), generator=torch.Generator().manual_seed(0))
    return [{"input_ids": row, "labels": row} for row in tokens.tolist()]


def make_uneven_rows() -> list[Row]:
    """Eight rows with labels for the first 4, 8, ... 32 tokens, as padding has them."""
    tokens = torch.randint(3, VOCABULARY, (8, 32), generator=torch.Generator().manual_seed(0))
    labels = [
        row[: 4 * n] + [-100] * (32 - 4 * n) for n, row in enumerate(tokens.tolist(), start=1)
    ]
    return [{"input_ids": tokens[n].tolist(), "labels": labels[n]} for n in range(8)]


def train(variant: str, device: str, steps: int) -> None:
    """Trains one variant for ``steps`` optimizer steps on ``device`` ("cpu" or "cuda")."""
    with tempfile.TemporaryDirectory() as folder:
        if variant.startswith("dpo"):
            train_dpo(folder, device, steps, logged=variant == "dpo_logged")
            return

        model = make_model(device, DTYPES.get(variant, torch.float32))
        if variant.startswith("all_frozen"):
            model.requires_grad_(False)
        if variant.startswith("frozen_embeddings"):
            model.get_input_embeddings().requires_grad_(False)
        if variant.startswith("lora") or variant == "input_grads":
            model = add_lora(model)
        if variant in ("input_grads", "all_frozen_input_grads"):
            model.enable_input_require_grads()

        optimizer = None  # the Trainer makes its own
        if variant in DTYPES:
            optimizer = make_optimizer(model, eps=1e-4 if variant.endswith("eps") else 1e-8)
        if variant == "other_parameters":
            optimizer = make_optimizer(make_model(device))

        arguments = make_arguments(
            folder,
            device,
            steps,
            reentrant=variant == "input_grads" or variant.endswith(CHECKPOINTED),
            learning_rate=0.0 if variant == "lr_zero" else LEARNING_RATE,
            batches=BATCHES.get(variant, (4, 1)),
        )
        rows = make_uneven_rows() if variant in BATCHES else make_rows()
        kind = RewrappedLossTrainer if variant == "rewrapped_loss" else Trainer
        trainer = kind(
            model=model, args=arguments, train_dataset=rows, optimizers=(optimizer, None)
        )
        if variant.endswith("checked"):
            count_parameters(model)
        with watch_gradients(model) if variant.endswith("hooked") else contextlib.nullcontext():
            trainer.train()


def count_parameters(model: torch.nn.Module) -> None:
    """The check that people are told to do first."""
    parameters = list(model.parameters())
    every, some = len(parameters), sum(parameter.requires_grad for parameter in parameters)
    warnings.warn(f"model.parameters(): {some} of {every} have requires_grad", stacklevel=1)


@contextlib.contextmanager
def watch_gradients(model: torch.nn.Module) -> Iterator[None]:
    """Says in the end how many of the parameters that may learn got a gradient."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    arrived = set()
    for number, parameter in enumerate(trainable):
        parameter.register_hook(lambda _, number=number: arrived.add(number))
    try:
        yield
    finally:
        some, every = len(arrived), len(trainable)
        warnings.warn(
            f"hooks: a gradient came to {some} of {every} trainable parameters", stacklevel=1
        )


def make_tokenizer() -> Any:
    """Words w3 .. w63, pad, bos and eos: no download."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<s>", "</s>"] + [f"w{i}" for i in range(3, VOCABULARY)]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


class Logged(TrainerCallback):
    """Says what a progress bar shows."""

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        """Learning rate and rewards."""
        rewards = [value for name, value in logs.items() if name.startswith("rewards/")]
        if rewards:
            shown = "finite" if all(math.isfinite(value) for value in rewards) else "nan"
            rate = logs["learning_rate"]
            warnings.warn(f"logged: learning_rate {rate}, rewards {shown}", stacklevel=1)


def train_dpo(folder: str, device: str, steps: int, *, logged: bool) -> None:
    """DPO as its documentation has it for adapters: no reference model, it is the base model."""
    import trl
    from datasets import Dataset
    from trl import DPOTrainer

    def sentence(start: int, length: int) -> str:
        return " ".join(f"w{3 + (7 * start + i) % (VOCABULARY - 3)}" for i in range(length))

    rows = {
        "prompt": [sentence(i, 6) for i in range(4)],
        "chosen": [" " + sentence(i + 10, 6) for i in range(4)],
        "rejected": [" " + sentence(i + 20, 6) for i in range(4)],
    }
    kind = getattr(trl, "DPOConfig", TrainingArguments)  # TRL 0.8 has no DPOConfig
    beta = {"beta": 0.1}  # an argument of the trainer, later of its config
    in_config = "beta" in inspect.signature(kind.__init__).parameters
    arguments = make_arguments(
        folder, device, steps, reentrant=True, kind=kind, **(beta if in_config else {})
    )
    if logged:
        arguments.logging_strategy, arguments.logging_steps = IntervalStrategy.STEPS, 1
    accepted = inspect.signature(DPOTrainer.__init__).parameters
    tokenizer = "processing_class" if "processing_class" in accepted else "tokenizer"
    DPOTrainer(
        model=add_lora(make_model(device)),
        args=arguments,
        train_dataset=Dataset.from_dict(rows),
        callbacks=[Logged()] if logged else [],
        **{tokenizer: make_tokenizer()},
        **({} if in_config else beta),
    ).train()


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cpu", 16)
