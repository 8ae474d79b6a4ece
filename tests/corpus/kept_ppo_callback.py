# /// script
# dependencies = ["stable-baselines3", "gymnasium"]
# [tool.corpus]
# environment = "science"
# field = "reinforcement learning"
# source = "https://stable-baselines3.readthedocs.io/en/master/guide/examples.html"
# optimizer = true
# kept_out = true
# ///
"""PPO of Stable-Baselines3 with a linear learning-rate schedule and a callback."""

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback


def linear_schedule(initial_value):
    """Linear learning rate schedule; progress_remaining goes from 1 (beginning) to 0."""

    def func(progress_remaining):
        return progress_remaining * initial_value

    return func


class PrintCallback(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_end(self):
        print(f"{self.num_timesteps} steps, value loss so far: "
              f"{self.logger.name_to_value.get('train/value_loss', float('nan')):.3f}")


model = PPO(
    "MlpPolicy",
    "CartPole-v1",
    n_steps=64,
    batch_size=32,
    n_epochs=2,
    learning_rate=linear_schedule(1e-2),
    max_grad_norm=0.5,
    policy_kwargs={"net_arch": [16]},
    seed=0,
    device="cpu",
)
model.learn(total_timesteps=192, callback=PrintCallback())
print("clip range", model.clip_range(1.0), "updates", model._n_updates)
