"""Left padding and rows that attend to nothing: NaN, or gradients that differ.

With a causal mask and padding on the left, the first rows of the attention have no key at all.
Reported as PyTorch issue 103749 (scaled_dot_product_attention gives NaN there; closed by pull
request 133882 in 2.5), PyTorch issue 41508 (nn.MultiheadAttention: the gradients are NaN though the
loss is not), Unsloth pull request 9848 (transformers 5.15.1 builds such a mask and does not correct
it: NaN on a GPU) and transformers issue 47651 (left padding changes the logits under SDPA). The
advice: fill with the smallest number in place of minus infinity; let such a row attend to anything,
as transformers did; `attn_implementation="eager"`; pad on the right.

Each variant learns the next token of four rows of 3 to 8 tokens in a plain loop.

- `sdpa_*` is a model of two attention layers in plain PyTorch. `bool` has a mask of booleans,
  `infinity` and `smallest` add minus infinity or the smallest number, `unmasked` lets a row that
  attends to nothing attend to everything, `nan_to_num` replaces the NaN in the output, `one_layer`
  has one layer. `softmax_*` is the attention written out, `multihead` is nn.MultiheadAttention.
- `llama_*` is a tiny Llama of transformers by padding side and `attn_implementation`.
- Padding and the first token of each row have the label -100, so that left and right learn the
  same tokens. `all` has a label for each token, as a collator makes it from the padding: on the
  left, the first token is then learnt from the padding before it, a row that attends to nothing.
- `empty` has a row with nothing but padding.

What the measurement shows
(CPU; PyTorch 2.0.1 to 2.15.0, transformers 4.29.2 to 5.23.0)

- Plain PyTorch gives NaN with 2.0.1, 2.2.2 and 2.4.0, and none with 2.6.0 and later. Where no loss
  looks at the row (`one_layer`) the first loss is finite and the gradients are NaN; `nan_to_num`
  does not change that. `smallest` and `unmasked` train everywhere, as if padded on the right.
- Written out with minus infinity, and in nn.MultiheadAttention, there is NaN up to 2.15.0.
  `need_weights=False` helps with 2.6.0 and later.
- The Llama never gives NaN, in no dtype: transformers adds the smallest number, and since 4.53.2,
  with masks of booleans, PyTorch is new enough. Left agrees with right, and eager with SDPA.
- `all`: eager and SDPA disagree, except on PyTorch 2.2.2. There are two reasons. With transformers
  4.46.1 to 4.50.3 (PyTorch 2.4.0 and 2.6.0) the first loss is the same, and the norm of the
  gradients is far too large. Since 4.53.2 such a row is zero under SDPA, and the mean of all values
  under eager: the losses differ from the first one on.
- The large gradients are those of `sdpa_all_smallest`, with PyTorch 2.4.0 to 2.15.0: the fused
  backward pass makes the probabilities from the logsumexp. Beside the smallest number of float32
  or bfloat16 the logarithm of the number of keys is lost, and each key gets a probability of 1.
"""

from __future__ import annotations

import argparse

import torch
from torch.nn import functional

NEEDS = ("torch",)

VARIANTS = {
    "sdpa_right": {"role": "control", "summary": "padded on the right, a mask of booleans"},
    "sdpa_bool": {"role": "reported", "summary": "padded on the left, a mask of booleans"},
    "sdpa_bool_bfloat16": {"role": "reported", "summary": "sdpa_bool in bfloat16"},
    "sdpa_bool_float16": {
        "role": "reported",
        "summary": "sdpa_bool in float16",
        "needs": ("torch>=2.2",),
    },
    "sdpa_infinity": {"role": "reported", "summary": "a mask that adds minus infinity"},
    "sdpa_one_layer": {"role": "reported", "summary": "one layer: no loss looks at the NaN rows"},
    "sdpa_empty": {"role": "reported", "summary": "one row is nothing but padding"},
    "softmax_infinity": {"role": "reported", "summary": "written out, with minus infinity"},
    "multihead": {"role": "reported", "summary": "nn.MultiheadAttention as it is"},
    "multihead_no_weights": {
        "role": "remedy",
        "summary": "nn.MultiheadAttention with need_weights=False",
    },
    "sdpa_smallest": {"role": "remedy", "summary": "add the smallest number, not minus infinity"},
    "softmax_smallest": {"role": "remedy", "summary": "the same written out"},
    "softmax_all_smallest": {
        "role": "control",
        "summary": "softmax_smallest with a label for the first token",
    },
    "sdpa_all_smallest": {
        "role": "reported",
        "summary": "sdpa_smallest with a label for the first token",
    },
    "sdpa_unmasked": {
        "role": "remedy",
        "summary": "a row that attends to nothing may attend to everything",
    },
    "sdpa_nan_to_num": {"role": "remedy", "summary": "torch.nan_to_num after each attention"},
    "llama_right_eager": {
        "role": "control",
        "summary": "Llama, padded on the right, eager",
        "needs": ("transformers",),
    },
    "llama_right_sdpa": {
        "role": "control",
        "summary": "Llama, padded on the right, sdpa",
        "needs": ("transformers>=4.36",),
    },
    "llama_left_sdpa": {
        "role": "reported",
        "summary": "Llama, padded on the left, sdpa",
        "needs": ("transformers>=4.36",),
    },
    "llama_left_sdpa_bfloat16": {
        "role": "reported",
        "summary": "llama_left_sdpa in bfloat16",
        "needs": ("transformers>=4.36",),
    },
    "llama_left_sdpa_float16": {
        "role": "reported",
        "summary": "llama_left_sdpa in float16",
        "needs": ("torch>=2.2", "transformers>=4.36"),
    },
    "llama_empty_sdpa": {
        "role": "reported",
        "summary": "llama_left_sdpa, one row is nothing but padding",
        "needs": ("transformers>=4.36",),
    },
    "llama_left_all_sdpa": {
        "role": "reported",
        "summary": "llama_left_sdpa with a label for the first token",
        "needs": ("transformers>=4.36",),
    },
    "llama_left_eager": {
        "role": "remedy",
        "summary": 'attn_implementation="eager"',
        "needs": ("transformers",),
    },
    "llama_empty_eager": {
        "role": "remedy",
        "summary": "eager, one row is nothing but padding",
        "needs": ("transformers",),
    },
    "llama_left_all_eager": {
        "role": "remedy",
        "summary": "eager, with a label for the first token",
        "needs": ("transformers",),
    },
}

# The same tokens are learnt, so only the rounding may differ. AdamW in half precision rounds more
# than the attention does.
AGREE = [
    ("sdpa_right", "sdpa_bool"),
    ("sdpa_right", "sdpa_infinity"),
    ("sdpa_right", "sdpa_smallest"),
    ("sdpa_right", "sdpa_unmasked"),
    ("sdpa_right", "sdpa_nan_to_num"),
    ("sdpa_right", "softmax_smallest"),
    ("softmax_all_smallest", "sdpa_all_smallest"),
    ("sdpa_right", "sdpa_bool_bfloat16", {"only": "first loss"}),
    ("sdpa_right", "sdpa_bool_float16", {"only": "first loss"}),
    ("llama_right_eager", "llama_right_sdpa"),
    ("llama_right_eager", "llama_left_eager"),
    ("llama_right_sdpa", "llama_left_sdpa"),
    ("llama_right_sdpa", "llama_left_sdpa_bfloat16", {"only": "first loss"}),
    ("llama_right_sdpa", "llama_left_sdpa_float16", {"only": "first loss"}),
    ("llama_empty_eager", "llama_empty_sdpa"),
    ("llama_left_all_eager", "llama_left_all_sdpa"),
]

TOKENS, WIDTH, HEADS = 32, 16, 2
LENGTHS = (3, 5, 8, 8)
PADDING, IGNORED = 0, -100
RIGHT = ("sdpa_right", "llama_right_eager", "llama_right_sdpa")
ALL = (
    "sdpa_all_smallest",
    "softmax_all_smallest",
    "llama_left_all_sdpa",
    "llama_left_all_eager",
)
EMPTY = ("sdpa_empty", "llama_empty_sdpa", "llama_empty_eager")


def train(variant: str, device: str, steps: int) -> None:
    """Train the model that the variant names."""
    dtype = torch.float32
    if variant.endswith("bfloat16"):
        dtype = torch.bfloat16
    elif variant.endswith("float16"):
        dtype = torch.float16
    batch = make_batch(
        "right" if variant in RIGHT else "left",
        empty=variant in EMPTY,
        first_label=variant in ALL,
    )
    torch.manual_seed(0)
    if variant.startswith("llama"):
        model = make_llama("eager" if variant.endswith("eager") else "sdpa")
    else:
        model = Decoder(variant)
    model.to(device, dtype)
    batch = {name: rows.to(device) for name, rows in batch.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-4)
    for _ in range(steps):
        optimizer.zero_grad()
        model(**batch)[0].backward()
        optimizer.step()


def make_batch(side: str, *, empty: bool, first_label: bool) -> dict[str, torch.Tensor]:
    """Padded rows of random tokens, the mask of what is no padding, and the labels."""
    chance = torch.Generator().manual_seed(1)
    rows = [torch.randint(1, TOKENS, (length,), generator=chance) for length in LENGTHS]
    if empty:
        rows[0] = rows[0][:0]
    ids = torch.full((len(rows), max(LENGTHS)), PADDING)
    labels = torch.full_like(ids, IGNORED)
    for number, row in enumerate(rows):
        start = max(LENGTHS) - len(row) if side == "left" else 0
        ids[number, start : start + len(row)] = row
        labels[number, start : start + len(row)] = row
        if len(row) and not first_label:
            labels[number, start] = IGNORED
    return {"input_ids": ids, "attention_mask": (ids != PADDING).long(), "labels": labels}


def make_llama(attention: str) -> torch.nn.Module:
    """A Llama with two layers and the attention `eager` or `sdpa`."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=TOKENS,
        hidden_size=WIDTH,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=64,
        pad_token_id=PADDING,
        bos_token_id=1,
        eos_token_id=2,
    )
    chosen = {}
    if hasattr(transformers.PreTrainedModel, "_supports_sdpa"):  # older ones have eager only
        chosen = {"attn_implementation": attention}
    return transformers.AutoModelForCausalLM.from_config(config, **chosen)


class Decoder(torch.nn.Module):
    """A language model of attention layers."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        count = 1 if variant == "sdpa_one_layer" else 2
        self.embed = torch.nn.Embedding(TOKENS, WIDTH)
        self.layers = torch.nn.ModuleList(Attention(variant) for _ in range(count))
        self.head = torch.nn.Linear(WIDTH, TOKENS)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss and the logits, as a model of transformers returns them."""
        length = input_ids.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool, device=input_ids.device).tril()
        may_attend = causal & attention_mask.bool()[:, None, None, :]
        hidden = self.embed(input_ids)
        for layer in self.layers:
            hidden = hidden + layer(hidden, may_attend)
        logits = self.head(hidden)
        learnt = labels[:, 1:] != IGNORED  # no loss looks at another position
        loss = functional.cross_entropy(logits[:, :-1][learnt].float(), labels[:, 1:][learnt])
        return loss, logits


class Attention(torch.nn.Module):
    """Attention with a mask."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        self.variant = variant
        if variant.startswith("multihead"):
            self.multihead = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        else:
            self.project = torch.nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, hidden: torch.Tensor, may_attend: torch.Tensor) -> torch.Tensor:
        """Attend to what `may_attend` allows: batch, 1, queries, keys."""
        if self.variant.startswith("multihead"):
            mask = ~may_attend.expand(-1, HEADS, -1, -1).flatten(0, 1)
            weights = self.variant == "multihead"  # it returns them unless told not to
            return self.multihead(hidden, hidden, hidden, attn_mask=mask, need_weights=weights)[0]
        batch, length, _ = hidden.shape
        parts = self.project(hidden).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind()
        attended = attend(self.variant, query, key, value, may_attend)
        return attended.transpose(1, 2).reshape(batch, length, WIDTH)


def attend(
    variant: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Attention in plain PyTorch. A row of the mask may be False everywhere."""
    lowest = float("-inf")
    if variant.endswith("smallest"):
        lowest = torch.finfo(query.dtype).min
    added = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, lowest)
    if variant.startswith("softmax"):
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        return (scores + added).softmax(-1) @ value
    if variant == "sdpa_unmasked":
        mask = mask | ~mask.any(-1, keepdim=True)
    if variant in {"sdpa_infinity", "sdpa_smallest", "sdpa_all_smallest"}:
        mask = added
    attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return torch.nan_to_num(attended) if variant == "sdpa_nan_to_num" else attended


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=VARIANTS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=16)
    train(**vars(parser.parse_args()))
