# /// script
# dependencies = ["diffusers"]
# [tool.corpus]
# environment = "vision"
# field = "Diffusion"
# source = "https://huggingface.co/docs/diffusers/tutorials/basic_training"
# optimizer = true
# ///
"""A tiny U-Net learns to remove noise; diffusers keeps a moving average of it for sampling."""

import torch
import torch.nn.functional as F
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from diffusers.optimization import get_cosine_schedule_with_warmup
from diffusers.training_utils import EMAModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=16,
    in_channels=1,
    out_channels=1,
    layers_per_block=1,
    block_out_channels=(16, 32),
    norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)
grid = torch.linspace(-1, 1, 16)
center = torch.rand(64, 2, 1, 1) - 0.5
images = ((grid[:, None] - center[:, 0]) ** 2 + (grid[None, :] - center[:, 1]) ** 2 < 0.2) * 2.0 - 1
images = images.unsqueeze(1)

noise_scheduler = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
lr_scheduler = get_cosine_schedule_with_warmup(
    optimizer=optimizer, num_warmup_steps=3, num_training_steps=24
)
ema_model = EMAModel(model.parameters(), decay=0.95)

for step in range(24):
    clean_images = images[torch.randperm(64)[:8]]
    # Sample noise to add to the images
    noise = torch.randn(clean_images.shape)
    timesteps = torch.randint(0, noise_scheduler.config.num_train_timesteps, (8,))
    # Add noise to the clean images according to the noise magnitude at each timestep
    noisy_images = noise_scheduler.add_noise(clean_images, noise, timesteps)

    # Predict the noise residual
    noise_pred = model(noisy_images, timesteps, return_dict=False)[0]
    loss = F.mse_loss(noise_pred, noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    lr_scheduler.step()
    optimizer.zero_grad()
    ema_model.step(model.parameters())
    if step % 6 == 0:
        print(f"{step}: loss {loss.item():.3f}, lr {lr_scheduler.get_last_lr()[0]:.1e}")

ema_model.copy_to(model.parameters())
pipeline = DDPMPipeline(unet=model, scheduler=noise_scheduler)
pipeline.set_progress_bar_config(disable=True)
sample = pipeline(batch_size=1, num_inference_steps=5, output_type="np").images
print("a sample:", sample.shape)
