# /// script
# dependencies = ["diffusers", "torch-ema"]
# [tool.corpus]
# environment = "vision"
# field = "diffusion"
# source = "https://huggingface.co/docs/diffusers/tutorials/basic_training"
# optimizer = true
# kept_out = true
# ///
"""A tiny DDPM learns to denoise stripes and keeps an average of its weights."""

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from torch_ema import ExponentialMovingAverage


@dataclass
class TrainingConfig:
    image_size = 16
    train_batch_size = 8
    num_epochs = 3
    learning_rate = 1e-3
    lr_warmup_steps = 2
    ema_decay = 0.95
    seed = 0


config = TrainingConfig()
torch.manual_seed(config.seed)
stripes = torch.sign(torch.sin(torch.arange(config.image_size) * torch.rand(24, 1) * 3))
dataset = stripes[:, None, None, :].expand(-1, 1, config.image_size, -1).contiguous()
train_dataloader = torch.utils.data.DataLoader(dataset, config.train_batch_size, shuffle=True)

model = UNet2DModel(
    sample_size=config.image_size,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(8, 16),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
noise_scheduler = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
lr_scheduler = get_cosine_schedule_with_warmup(
    optimizer=optimizer,
    num_warmup_steps=config.lr_warmup_steps,
    num_training_steps=len(train_dataloader) * config.num_epochs,
)
ema = ExponentialMovingAverage(model.parameters(), decay=config.ema_decay)


def train_loop(config, model, noise_scheduler, optimizer, train_dataloader, lr_scheduler):
    for epoch in range(config.num_epochs):
        for clean_images in train_dataloader:
            noise = torch.randn(clean_images.shape)
            timesteps = torch.randint(0, 100, (clean_images.shape[0],), dtype=torch.int64)
            noisy_images = noise_scheduler.add_noise(clean_images, noise, timesteps)
            noise_pred = model(noisy_images, timesteps, return_dict=False)[0]
            loss = F.mse_loss(noise_pred, noise)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
            ema.update()
        print(epoch, round(loss.item(), 4), lr_scheduler.get_last_lr()[0])


train_loop(config, model, noise_scheduler, optimizer, train_dataloader, lr_scheduler)
sampler = copy.deepcopy(model)
ema.copy_to(sampler.parameters())
