# /// script
# dependencies = ["timm"]
# [tool.corpus]
# environment = "vision"
# field = "Vision"
# source = "https://huggingface.co/docs/timm/training_script"
# optimizer = true
# ///
"""A tiny vision transformer of timm with mixup, its optimizer factory, a warm-up and an average."""

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV2

torch.manual_seed(42)
images = torch.randn(64, 3, 32, 32)
labels = torch.randint(4, (64,))
images += labels[:, None, None, None] * 0.3

model = timm.create_model(
    "vit_tiny_patch16_224",
    pretrained=False,
    num_classes=4,
    img_size=32,
    patch_size=8,
    depth=2,
)
model_ema = ModelEmaV2(model, decay=0.9)
mixup_fn = Mixup(mixup_alpha=0.2, num_classes=4, label_smoothing=0.1)
train_loss_fn = SoftTargetCrossEntropy()
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
lr_scheduler = CosineLRScheduler(optimizer, t_initial=6, warmup_t=1, warmup_lr_init=1e-5)

for epoch in range(4):
    model.train()
    lr_scheduler.step(epoch)
    for rows in torch.randperm(64).split(16):
        input, target = mixup_fn(images[rows], labels[rows])
        output = model(input)
        loss = train_loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        model_ema.update(model)
    print(f"epoch {epoch}: loss {loss.item():.3f}, lr {optimizer.param_groups[0]['lr']:.1e}")

model_ema.module.eval()
accuracy = (model_ema.module(images).argmax(1) == labels).float().mean()
print(f"accuracy of the average: {accuracy.item():.2f}")
