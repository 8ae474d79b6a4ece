# /// script
# dependencies = ["transformers", "lion-pytorch"]
# [tool.corpus]
# environment = "language"
# field = "language models, masked"
# source = "https://github.com/lucidrains/lion-pytorch"
# optimizer = true
# kept_out = true
# ///
"""Domain adaptation of a RoBERTa by masked words: Lion, frozen embeddings, checkpointing."""

import argparse

import torch
from lion_pytorch import Lion
from transformers import RobertaConfig, RobertaForMaskedLM


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--warmup_iters", type=int, default=2)
    parser.add_argument("--max_iters", type=int, default=12)
    parser.add_argument("--grad_clip", type=float, default=1.0)
    return parser.parse_args()


def mask_tokens(inputs, mask_id=4, p=0.15):
    labels = inputs.clone()
    masked = torch.bernoulli(torch.full(labels.shape, p)).bool()
    labels[~masked] = -100
    inputs = inputs.masked_fill(masked, mask_id)
    return inputs, labels


args = get_args()
torch.manual_seed(1337)
model = RobertaForMaskedLM(RobertaConfig(vocab_size=96, hidden_size=32, num_hidden_layers=3,
                                         num_attention_heads=2, intermediate_size=64,
                                         max_position_embeddings=40))
model.roberta.embeddings.requires_grad_(False)
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
optimizer = Lion(model.parameters(), lr=args.lr, weight_decay=1e-2)
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda it: min(1.0, (it + 1) / args.warmup_iters)
)
data = torch.randint(5, 96, (32, 24))

model.train()
for it in range(args.max_iters):
    batch = data[torch.randint(len(data), (8,))]
    input_ids, labels = mask_tokens(batch)
    loss = model(input_ids=input_ids, labels=labels).loss
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    if args.grad_clip is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
    optimizer.step()
    scheduler.step()
    if it % 4 == 0:
        print(f"iter {it}: loss {loss.item():.4f}, lr {scheduler.get_last_lr()[0]:.1e}")
