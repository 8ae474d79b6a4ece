# /// script
# dependencies = ["peft", "transformers"]
# [tool.corpus]
# environment = "language"
# field = "parameter-efficient fine-tuning"
# source = "https://huggingface.co/docs/peft/task_guides/ia3"
# optimizer = true
# ///
"""IA3 and prefix tuning, one after the other, on the same kind of small T5."""

import torch
from peft import IA3Config, PrefixTuningConfig, TaskType, get_peft_model
from transformers import T5Config, T5ForConditionalGeneration

torch.manual_seed(0)
config = T5Config(
    vocab_size=50, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2,
    dropout_rate=0.0, decoder_start_token_id=0,
)
peft_configs = [
    IA3Config(
        task_type=TaskType.SEQ_2_SEQ_LM, target_modules=["k", "v", "wo"], feedforward_modules=["wo"]
    ),
    PrefixTuningConfig(task_type=TaskType.SEQ_2_SEQ_LM, num_virtual_tokens=4),
]
for peft_config in peft_configs:
    model = get_peft_model(T5ForConditionalGeneration(config), peft_config)
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    for step in range(8):
        source = torch.randint(2, 50, (8, 10))
        outputs = model(
            input_ids=source,
            attention_mask=torch.ones_like(source),
            labels=source[:, :4].contiguous(),
        )
        outputs.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"{peft_config.peft_type.value}: loss {outputs.loss.item():.3f}")
