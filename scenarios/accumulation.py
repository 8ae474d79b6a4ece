"""Gradient accumulation against exact gradients: scaled once, n times or not at all.

Eight rows in four accumulated batches must give the gradient of these rows in one batch. Reported:
transformers PR 34191 (a mean over batches is no mean over tokens), issue 34242 (several ranks), PR
35438 (4.46: a model without loss arguments), issue 47688 (a model that takes `**kwargs` and drops
`num_items_in_batch`), issue 43595 and PR 43651 (a trainer with a loss of its own), issue 40709
(divided twice), accelerate issue 3661, and TRL issue 2617 (its trainers, DPO first).

Each variant trains a tiny model with SGD, so that a factor cannot hide, and without clipping. The
first gradient is compared with the exact one, and a warning names the factor if it is wrong.
Another one names a wrong loss in the Trainer's log.

- Rows with equal numbers of labels: `exact` is one batch in a plain loop. Then every mean is the
  same, and only the scale can be wrong.
- `uneven_*`: rows with 1 to 11 labels. `uneven_exact` is the mean over all labels.
- `no_loss_arguments`, `ignores_kwargs`, `uneven_loss_arguments`: the signatures of `forward` from
  which the Trainer guesses whether the loss is divided already; `bert` is a model of transformers.
- `lightning_without_batch_idx` is not from a report: it was seen when this was written.
- `ranks*`: two ranks with gloo, two batches each. A rank's loss is not that of all rows, so here
  a wrong gradient is an AssertionError.
- `sft`, `dpo`, `reward`: TRL's trainers, each with its `_one_batch`.

What the measurement shows (CPU; transformers 4.29.2 to 5.23.0)

- A mean over batches is not the mean over labels: so it is in a plain loop, with accelerate, with
  Lightning and, for a model without loss arguments, with the Trainer, in all releases. Dividing the
  sums by all labels is exact.
- transformers 4.29 to 4.39: nothing is scaled wrongly, and every uneven variant is a mean of means.
- 4.46.1: 4 times the exact gradient, unless the loss is divided by `num_items_in_batch`. No
  remedy of the newer releases helps, and two ranks have twice their gradient.
- 4.49 to 4.57 and 5.23: right for a model without loss arguments, and exact for a loss that uses
  `num_items_in_batch`. 4 times too large for each loss that ignores it where the Trainer believes
  that it was used: `ignores_kwargs`, `compute_loss_ignores`, `loss_func_ignores`. Each
  remedy helps.
- `bert` is such a model since transformers 5 gave its head `**kwargs`: 4 times with 5.23, right
  with 4.49 to 4.57.
- 5.4: everything is divided once more, TRL 1.0's trainers too. What is right elsewhere is a
  quarter, and what is 4 times too large is exact.
- The logged loss tells of a loss that is 4 times too large. It does not tell of a quarter: with
  5.4 it is right where the gradient is a quarter, and 4 times too large where that is exact.
- Two ranks: up to 4.53 each rank divides by its own labels, which `average_tokens_across_devices`
  cures; from 4.56 on it is the default. A model that ignores `**kwargs` then has a gradient that is
  too large by the ranks as well: 4 times with two batches on each of two ranks, before it was 2.
- Lightning 2.0.3 without `batch_idx` in `training_step` clears the gradients before each batch:
  only the last one counts, and the loss tells nothing. 2.2.2 and newer are right.
- TRL 0.9.6 with transformers 4.46.1 cannot run DPOTrainer, accumulated or not: a clash of names.
"""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import os
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import Trainer, TrainingArguments

if TYPE_CHECKING:
    from collections.abc import Callable

NEEDS = ("torch", "transformers>=4.29", "accelerate")

VARIANTS = {
    "exact": {"role": "control", "summary": "8 rows in one batch, a plain loop"},
    "divided": {"role": "control", "summary": "4 batches in a plain loop, each loss divided by 4"},
    "uneven_exact": {"role": "control", "summary": "8 uneven rows in one batch, a plain loop"},
    "uneven_divided": {
        "role": "reported",
        "summary": "4 uneven batches in a plain loop, each loss divided by 4",
    },
    "uneven_by_tokens": {
        "role": "remedy",
        "summary": "4 uneven batches in a plain loop, each sum divided by the labels of all",
    },
    "uneven_accelerate": {
        "role": "reported",
        "summary": "accelerator.accumulate, 4 uneven batches, each with its mean",
    },
    "uneven_accelerate_by_tokens": {
        "role": "remedy",
        "summary": "accelerator.accumulate, each sum times 4, divided by the labels of all",
    },
    "lightning": {
        "role": "control",
        "summary": "Lightning with accumulate_grad_batches=4",
        "needs": ("torch", "transformers>=4.29", "accelerate", "lightning"),
    },
    "lightning_without_batch_idx": {
        "role": "reported",
        "summary": "Lightning with accumulate_grad_batches=4, training_step(self, batch)",
        "needs": ("torch", "transformers>=4.29", "accelerate", "lightning"),
    },
    "uneven_lightning": {
        "role": "reported",
        "summary": "Lightning with accumulate_grad_batches=4, uneven batches",
        "needs": ("torch", "transformers>=4.29", "accelerate", "lightning"),
    },
    "trainer": {"role": "control", "summary": "the Trainer, 8 rows in one batch"},
    "no_loss_arguments": {
        "role": "reported",
        "summary": "the Trainer, forward(input_ids, labels)",
    },
    "ignores_kwargs": {
        "role": "reported",
        "summary": "the Trainer, forward(input_ids, labels, **kwargs) that ignores them",
    },
    "accepts_loss_kwargs": {
        "role": "remedy",
        "summary": "ignores_kwargs with model.accepts_loss_kwargs = False",
    },
    "bert_one_batch": {"role": "control", "summary": "BertForTokenClassification, one batch"},
    "bert": {"role": "reported", "summary": "BertForTokenClassification, 4 batches"},
    "compute_loss_ignores": {
        "role": "reported",
        "summary": "an overridden compute_loss that ignores num_items_in_batch",
    },
    "model_accepts_loss_kwargs": {
        "role": "remedy",
        "summary": "compute_loss_ignores with trainer.model_accepts_loss_kwargs = False",
    },
    "loss_is_scaled_for_ga": {
        "role": "remedy",
        "summary": "compute_loss_ignores with loss_is_scaled_for_ga = False in the Trainer's class",
    },
    "loss_func_ignores": {
        "role": "reported",
        "summary": "a compute_loss_func that ignores num_items_in_batch",
    },
    "uneven_no_loss_arguments": {
        "role": "reported",
        "summary": "the Trainer, forward(input_ids, labels), uneven batches",
    },
    "uneven_loss_arguments": {
        "role": "remedy",
        "summary": "the Trainer, a model that divides by num_items_in_batch, uneven batches",
    },
    "uneven_compute_loss": {
        "role": "remedy",
        "summary": "an overridden compute_loss that divides by num_items_in_batch, uneven batches",
    },
    "uneven_loss_func": {
        "role": "remedy",
        "summary": "a compute_loss_func that divides by num_items_in_batch, uneven batches",
    },
    "ranks_uneven_plain": {
        "role": "control",
        "summary": "2 ranks in a plain loop, each sum times 2, divided by the labels of all ranks",
    },
    "ranks": {"role": "reported", "summary": "2 ranks, the Trainer, forward(input_ids, labels)"},
    "ranks_ignores_kwargs": {"role": "reported", "summary": "ignores_kwargs on 2 ranks"},
    "ranks_uneven": {
        "role": "reported",
        "summary": "uneven_loss_arguments on 2 ranks, average_tokens_across_devices as it is",
    },
    "ranks_uneven_average_tokens": {
        "role": "remedy",
        "summary": "uneven_loss_arguments on 2 ranks, average_tokens_across_devices=True",
    },
    "sft_one_batch": {
        "role": "control",
        "summary": "TRL's SFTTrainer, 8 uneven rows in one batch",
        "needs": ("torch", "transformers>=4.39", "accelerate", "trl>=0.8", "datasets"),
    },
    "sft": {
        "role": "reported",
        "summary": "TRL's SFTTrainer, 4 uneven batches",
        "needs": ("torch", "transformers>=4.39", "accelerate", "trl>=0.8", "datasets"),
    },
    "dpo_one_batch": {
        "role": "control",
        "summary": "TRL's DPOTrainer, 8 pairs in one batch",
        "needs": ("torch", "transformers>=4.39", "accelerate", "trl>=0.8", "datasets"),
    },
    "dpo": {
        "role": "reported",
        "summary": "TRL's DPOTrainer, 4 batches of 2 pairs",
        "needs": ("torch", "transformers>=4.39", "accelerate", "trl>=0.8", "datasets"),
    },
    "reward_one_batch": {
        "role": "control",
        "summary": "TRL's RewardTrainer, 8 pairs in one batch",
        "needs": ("torch", "transformers>=4.49", "accelerate", "trl>=0.15", "datasets"),
    },
    "reward": {
        "role": "reported",
        "summary": "TRL's RewardTrainer, 4 batches of 2 pairs",
        "needs": ("torch", "transformers>=4.49", "accelerate", "trl>=0.15", "datasets"),
    },
}

AGREE = [
    ("exact", "divided"),
    ("exact", "trainer"),
    ("exact", "no_loss_arguments"),
    ("exact", "ignores_kwargs"),
    ("exact", "accepts_loss_kwargs"),
    ("exact", "compute_loss_ignores"),
    ("exact", "model_accepts_loss_kwargs"),
    ("exact", "loss_is_scaled_for_ga"),
    ("exact", "loss_func_ignores"),
    ("bert_one_batch", "bert"),
    ("uneven_exact", "uneven_divided"),
    ("uneven_exact", "uneven_by_tokens"),
    ("uneven_exact", "uneven_accelerate"),
    ("uneven_exact", "uneven_accelerate_by_tokens"),
    ("exact", "lightning"),
    ("exact", "lightning_without_batch_idx"),
    ("uneven_exact", "uneven_lightning"),
    ("uneven_exact", "uneven_no_loss_arguments"),
    ("uneven_exact", "uneven_loss_arguments"),
    ("uneven_exact", "uneven_compute_loss"),
    ("uneven_exact", "uneven_loss_func"),
    ("sft_one_batch", "sft"),
    ("dpo_one_batch", "dpo"),
    ("reward_one_batch", "reward"),
]

VOCABULARY = 64
LENGTH = 12
LABELS = (1, 2, 3, 4, 6, 8, 10, 11)
"""Labels of each uneven row: 3, 7, 14 and 21 in the four batches."""
BATCHES = 4

Batch = dict[str, torch.Tensor]


class Net(torch.nn.Module):
    """Name a class for each token; the loss is the mean over the labels of this batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, 16)
        self.head = torch.nn.Linear(16, VOCABULARY)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> Batch:
        """The logits, and the loss if there are labels."""
        logits = self.head(self.embed(input_ids))
        loss = {} if labels is None else {"loss": token_loss(logits, labels)}
        return {**loss, "logits": logits}


class IgnoresKwargs(Net):
    """Takes every argument, and ignores how many labels all batches have."""

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor, **kwargs: Any) -> Batch:
        """The same as without them."""
        return super().forward(input_ids, labels)


class LossArguments(Net):
    """Divides by the labels of all batches, if it is told."""

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor, **loss_kwargs: Any) -> Batch:
        """The loss as transformers' causal language models compute it, without a shift."""
        logits = super().forward(input_ids, labels)["logits"]
        loss = token_loss(logits, labels, loss_kwargs.get("num_items_in_batch"))
        return {"loss": loss, "logits": logits}


def token_loss(logits: torch.Tensor, labels: torch.Tensor, items: Any = None) -> torch.Tensor:
    """The mean over these labels, or their sum divided by `items`."""
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), reduction="mean" if items is None else "sum"
    )
    return loss if items is None else loss / items


class OwnLoss(Trainer):
    """Computes the loss itself, as the documentation shows it; nothing tells the Trainer so."""

    def compute_loss(self, model: Any, inputs: Batch, *_: Any, **__: Any) -> torch.Tensor:
        """The mean over the labels of this batch."""
        return token_loss(model(**inputs)["logits"], inputs["labels"])


class OwnLossByTokens(Trainer):
    """Computes the loss itself, and divides by the labels of all batches."""

    def compute_loss(
        self, model: Any, inputs: Batch, *_: Any, num_items_in_batch: Any = None, **__: Any
    ) -> torch.Tensor:
        """The sum over the labels of this batch, divided by the labels of all."""
        return token_loss(model(**inputs)["logits"], inputs["labels"], num_items_in_batch)


class NotScaled(OwnLoss):
    """Tells the Trainer so (newer releases)."""

    loss_is_scaled_for_ga = False


def mean_loss(outputs: Batch, labels: torch.Tensor, **_: Any) -> torch.Tensor:
    """A compute_loss_func that ignores how many labels there are."""
    return token_loss(outputs["logits"], labels)


def loss_by_tokens(
    outputs: Batch, labels: torch.Tensor, num_items_in_batch: Any = None
) -> torch.Tensor:
    """A compute_loss_func as the documentation has it."""
    return token_loss(outputs["logits"], labels, num_items_in_batch)


IGNORES = (
    "ignores_kwargs",
    "accepts_loss_kwargs",
    "compute_loss_ignores",
    "model_accepts_loss_kwargs",
    "loss_is_scaled_for_ga",
    "uneven_compute_loss",
    "ranks_ignores_kwargs",
)
TAKES = ("uneven_loss_arguments", "ranks_uneven", "ranks_uneven_average_tokens")


def train(variant: str, device: str, steps: int) -> None:
    """Train for `steps` optimizer steps, and tell if the first gradient is not the exact one."""
    if variant.startswith(("sft", "dpo", "reward")):
        train_trl(variant, device, steps)
        return
    if variant.startswith("ranks"):
        two_ranks(variant, device, steps)
        return
    model = make_model(variant).to(device)
    batch = {name: tensor.to(device) for name, tensor in make_batch(variant).items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    faults = watch(optimizer, model, batch)
    if "accelerate" in variant:
        train_accelerate(variant, model, optimizer, batch, steps)
    elif "lightning" in variant:
        train_lightning(variant, model, optimizer, batch, steps)
    elif variant in ("exact", "divided", "uneven_exact", "uneven_divided", "uneven_by_tokens"):
        plain_loop(variant, model, optimizer, batch, steps)
    else:
        faults += train_trainer(variant, model, optimizer, batch, steps)
    for fault in faults:
        warnings.warn(fault, stacklevel=1)


def make_model(variant: str) -> torch.nn.Module:
    """The same weights in each variant but `bert`."""
    torch.manual_seed(0)
    if variant.startswith("bert"):
        return make_bert()
    if variant in IGNORES:
        return IgnoresKwargs()
    if variant in TAKES:
        return LossArguments()
    return Net()


def make_bert() -> torch.nn.Module:
    """One layer; it names a class for each token."""
    from transformers import BertConfig, BertForTokenClassification

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=LENGTH,
        num_labels=VOCABULARY,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForTokenClassification(config)


def make_batch(variant: str) -> Batch:
    """8 rows. Labels that are ignored come first, as those of a prompt do."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCABULARY, (8, LENGTH), generator=generator)
    labels = torch.randint(VOCABULARY, (8, LENGTH), generator=generator)
    for row, count in enumerate(LABELS if "uneven" in variant else [6] * 8):
        labels[row, : LENGTH - count] = -100
    return {"input_ids": tokens, "labels": labels}


def pieces(batch: Batch, count: int) -> list[Batch]:
    """The rows in `count` batches."""
    return [{name: tensor.chunk(count)[n] for name, tensor in batch.items()} for n in range(count)]


def watch(optimizer: torch.optim.Optimizer, model: torch.nn.Module, batch: Batch) -> list[str]:
    """Compare the gradients of the first step with those of one batch; say what is wrong."""
    parameters = list(model.parameters())
    exact = torch.autograd.grad(model(**batch)["loss"], parameters)
    faults: list[str] = []

    def compare(*_: Any) -> None:
        handle.remove()
        fault = difference(
            torch.cat([parameter.grad.flatten() for parameter in parameters]),
            torch.cat([gradient.flatten() for gradient in exact]),
        )
        faults.extend(f"the gradient is {fault}" for _ in [fault] if fault)

    # After the step, because Lightning runs the last batch inside of it.
    handle = optimizer.register_step_post_hook(compare)
    return faults


def difference(value: torch.Tensor, exact: torch.Tensor) -> str:
    """How often `value` is the exact one; nothing if it is."""
    factor = float(value.flatten() @ exact.flatten() / exact.flatten().dot(exact.flatten()))
    if torch.allclose(value, exact, rtol=1e-3, atol=1e-6):
        return ""
    if torch.allclose(value, factor * exact, rtol=1e-3, atol=1e-6):
        return f"{factor:.4g} times the exact one"
    return "no multiple of the exact one"


def plain_loop(
    variant: str,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    steps: int,
) -> None:
    """The loop of PyTorch's own examples."""
    count = 1 if variant.endswith("exact") else BATCHES
    labels = batch["labels"].ne(-100).sum()
    for _ in range(steps):
        optimizer.zero_grad()
        for piece in pieces(batch, count):
            if variant == "uneven_by_tokens":
                loss = token_loss(model(**piece)["logits"], piece["labels"], labels)
            else:
                loss = model(**piece)["loss"] / count
            loss.backward()
        optimizer.step()


def train_accelerate(
    variant: str,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    steps: int,
) -> None:
    """The two loops of accelerate's guide to gradient accumulation."""
    from accelerate import Accelerator

    accelerator = Accelerator(
        gradient_accumulation_steps=BATCHES, cpu=batch["labels"].device.type == "cpu"
    )
    model, optimizer = accelerator.prepare(model, optimizer)
    labels = batch["labels"].ne(-100).sum()
    for _ in range(steps):
        for piece in pieces(batch, BATCHES):
            with accelerator.accumulate(model):
                output = model(**piece)
                loss = output["loss"]
                if variant.endswith("by_tokens"):
                    loss = token_loss(output["logits"], piece["labels"], labels / BATCHES)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()


def train_lightning(
    variant: str,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    steps: int,
) -> None:
    """Train with Lightning."""
    import lightning as L

    class Module(L.LightningModule):
        """The model and its optimizer."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, piece: Batch, batch_idx: int) -> torch.Tensor:
            return self.model(**piece)["loss"]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer

    class WithoutBatchIdx(Module):
        """Leaves out what it does not use, as Lightning allows."""

        def training_step(self, piece: Batch) -> torch.Tensor:
            return self.model(**piece)["loss"]

    kind = WithoutBatchIdx if variant.endswith("without_batch_idx") else Module
    L.Trainer(
        accelerator="gpu" if batch["labels"].device.type == "cuda" else "cpu",
        devices=1,
        max_epochs=steps,
        accumulate_grad_batches=BATCHES,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(kind(), torch.utils.data.DataLoader(pieces(batch, BATCHES), batch_size=None))


def train_trainer(
    variant: str,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    steps: int,
) -> list[str]:
    """Train with transformers.Trainer; say what is wrong with the first loss in its log."""
    kind = choose_trainer(variant)
    options: dict[str, Any] = {}
    if variant in ("loss_func_ignores", "uneven_loss_func"):
        require(Trainer.__init__, "compute_loss_func")
        ignores = variant == "loss_func_ignores"
        options["compute_loss_func"] = mean_loss if ignores else loss_by_tokens
    if variant == "accepts_loss_kwargs":
        model.accepts_loss_kwargs = False
    more: dict[str, Any] = {"remove_unused_columns": False}
    if variant == "ranks_uneven_average_tokens":
        more["average_tokens_across_devices"] = True
    count = 1 if variant in ("trainer", "bert_one_batch") else BATCHES
    with torch.no_grad():
        exact = model(**batch)["loss"]
    rows = [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = make_arguments(
            folder,
            exact.device.type,
            steps,
            batches=count,
            ranks=2 if variant.startswith("ranks") else 1,
            **more,
        )
        trainer = kind(
            model=model,
            args=arguments,
            train_dataset=[{name: value.tolist() for name, value in row.items()} for row in rows],
            optimizers=(optimizer, None),
            **options,
        )
        if variant == "model_accepts_loss_kwargs":
            trainer.model_accepts_loss_kwargs = False
        trainer.train()
    logged = next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)
    fault = difference(torch.tensor([float(logged)]), exact.cpu().view(1))
    return [f"the logged loss is {fault}"] if fault else []


def choose_trainer(variant: str) -> type[Trainer]:
    """The Trainer, or one with a loss of its own."""
    if variant in ("compute_loss_ignores", "model_accepts_loss_kwargs"):
        return OwnLoss
    if variant == "loss_is_scaled_for_ga":
        if not hasattr(Trainer, "loss_is_scaled_for_ga"):
            raise unittest.SkipTest("the Trainer has no loss_is_scaled_for_ga")
        return NotScaled
    if variant == "uneven_compute_loss":
        require(Trainer.compute_loss, "num_items_in_batch")
        return OwnLossByTokens
    return Trainer


def require(function: Callable[..., Any], argument: str) -> None:
    """Skip if `function` has no such argument."""
    if argument not in inspect.signature(function).parameters:
        raise unittest.SkipTest(f"the Trainer has no {argument}")


def make_arguments(
    folder: str,
    device: str,
    steps: int,
    *,
    batches: int,
    ranks: int = 1,
    kind: type = TrainingArguments,
    **options: Any,
) -> TrainingArguments:
    """Constant rate, no clipping, every loss in the log, nothing written."""
    known = inspect.signature(kind.__init__).parameters
    unknown = options.keys() - set(known)
    if unknown:
        raise unittest.SkipTest(f"the Trainer has no {', '.join(unknown)}")
    if device == "cpu":
        options["use_cpu" if "use_cpu" in known else "no_cuda"] = True
    return kind(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=8 // batches,
        gradient_accumulation_steps=batches // ranks,
        max_grad_norm=0.0,
        learning_rate=0.1,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        bf16=False,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        logging_first_step=True,
        disable_tqdm=True,
        seed=0,
        **options,
    )


def two_ranks(variant: str, device: str, steps: int) -> None:
    """Run the variant on two ranks of this machine; the second one is a child of this process."""
    if device != "cpu":
        raise unittest.SkipTest("two ranks need two devices, or the CPU")
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder, "store"))
        other = multiprocessing.get_context("fork").Process(
            target=one_rank, args=(1, variant, steps, store), daemon=True
        )
        other.start()
        try:
            faults = one_rank(0, variant, steps, store)
            other.join(60)
        finally:
            other.kill()
            other.join()
    if faults:
        raise AssertionError(faults[0])


def one_rank(rank: int, variant: str, steps: int, store: str) -> list[str]:
    """Train one rank; say what is wrong with its first gradient."""
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE="2",
        LOCAL_WORLD_SIZE="2",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29500",
        GLOO_SOCKET_IFNAME="lo",
    )
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2
    )
    model, batch = make_model(variant), make_batch(variant)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    faults = watch(optimizer, model, batch)
    if variant == "ranks_uneven_plain":
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        labels = batch["labels"].ne(-100).sum()
        for _ in range(steps):
            optimizer.zero_grad()
            for piece in pieces(batch, BATCHES)[rank::2]:
                loss = token_loss(parallel(**piece)["logits"], piece["labels"], labels)
                (2 * loss).backward()
            optimizer.step()
    else:
        train_trainer(variant, model, optimizer, batch, steps)
    torch.distributed.barrier()
    return faults


def train_trl(variant: str, device: str, steps: int) -> None:
    """Train with one of TRL's trainers, as its documentation does."""
    import trl
    from datasets import Dataset

    method = "SFT" if variant.startswith("sft") else "DPO"
    if variant.startswith("reward"):
        method = "Reward"
    trainer = getattr(trl, f"{method}Trainer")
    kind = getattr(trl, f"{method}Config", TrainingArguments)  # TRL 0.8 has no config of these
    accepted = inspect.signature(trainer.__init__).parameters
    options: dict[str, Any] = {}
    if method == "SFT" and "dataset_text_field" in accepted:
        options["dataset_text_field"] = "text"
    if method == "DPO":
        options["ref_model"] = make_llama(method).to(device)
    tokenizer = "processing_class" if "processing_class" in accepted else "tokenizer"
    model = make_llama(method).to(device)
    with tempfile.TemporaryDirectory() as folder:
        trainer(
            model=model,
            args=make_arguments(
                folder,
                device,
                steps,
                batches=1 if variant.endswith("one_batch") else BATCHES,
                kind=kind,
                gradient_checkpointing=False,  # the default of newer TRL is True
            ),
            train_dataset=Dataset.from_dict(make_texts(method)),
            optimizers=(torch.optim.SGD(model.parameters(), lr=0.1), None),
            **{tokenizer: make_tokenizer()},
            **options,
        ).train()


def make_texts(method: str) -> dict[str, list[str]]:
    """8 rows of different lengths."""

    def words(start: int, length: int) -> str:
        return " ".join(f"w{3 + (7 * start + i) % (VOCABULARY - 3)}" for i in range(length))

    if method == "SFT":
        return {"text": [words(row, 1 + count) for row, count in enumerate(LABELS)]}
    prompts = {"prompt": [words(row, 3) for row in range(8)]} if method == "DPO" else {}
    return {
        **prompts,
        "chosen": [" " + words(row + 10, 2 + count) for row, count in enumerate(LABELS)],
        "rejected": [" " + words(row + 20, 2 + count) for row, count in enumerate(LABELS)],
    }


def make_llama(method: str) -> torch.nn.Module:
    """One layer, with a language model's head or with one number as the reward."""
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        num_labels=1,
    )
    head = "SequenceClassification" if method == "Reward" else "CausalLM"
    return getattr(transformers, f"LlamaFor{head}")(config)


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
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
