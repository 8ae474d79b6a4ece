# /// script
# dependencies = ["transformers"]
# [tool.corpus]
# environment = "language"
# field = "reinforcement learning, language models"
# source = "https://github.com/pytorch/examples/blob/main/reinforcement_learning/reinforce.py"
# optimizer = true
# kept_out = true
# ///
"""REINFORCE on a tiny GPT-2: text that has many even tokens is rewarded."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(7)
VOCAB, PROMPT, NEW = 32, 2, 8
policy = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=32, n_embd=32, n_layer=2,
                                    n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                    bos_token_id=0, eos_token_id=None))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)


def reward_fn(tokens):
    return (tokens % 2 == 0).float().mean(dim=1)


def log_probs_of(sequences):
    logits = policy(sequences[:, :-1]).logits
    logp = torch.log_softmax(logits, dim=-1)
    picked = logp.gather(2, sequences[:, 1:].unsqueeze(2)).squeeze(2)
    return picked[:, PROMPT - 1:].sum(dim=1)


for episode in range(12):
    prompts = torch.randint(0, VOCAB, (16, PROMPT))
    sequences = policy.generate(prompts, max_new_tokens=NEW, do_sample=True, top_k=0,
                                attention_mask=torch.ones_like(prompts), pad_token_id=0)
    rewards = reward_fn(sequences[:, PROMPT:])
    advantages = rewards - rewards.mean()
    log_probs = log_probs_of(sequences)
    policy_loss = []
    for log_prob, advantage in zip(log_probs, advantages):
        policy_loss.append(-log_prob * advantage)
    optimizer.zero_grad()
    loss = torch.stack(policy_loss).sum()
    loss.backward()
    optimizer.step()
    if episode % 4 == 0:
        print(f"episode {episode}\treward {rewards.mean():.3f}")
