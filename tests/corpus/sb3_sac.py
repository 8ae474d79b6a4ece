# /// script
# dependencies = ["stable-baselines3", "gymnasium"]
# [tool.corpus]
# environment = "science"
# field = "Reinforcement learning"
# source = "https://stable-baselines3.readthedocs.io/en/master/modules/sac.html"
# optimizer = true
# ///
"""SAC of stable-baselines3 on Pendulum: actor, two critics with targets, and the entropy weight."""

import gymnasium as gym
from stable_baselines3 import SAC

env = gym.make("Pendulum-v1")
model = SAC(
    "MlpPolicy",
    env,
    learning_starts=100,
    batch_size=32,
    train_freq=4,
    policy_kwargs=dict(net_arch=[32, 32]),
    seed=0,
    device="cpu",
)
model.learn(total_timesteps=300)

obs, info = env.reset(seed=1)
total = 0.0
for _ in range(50):
    action, _states = model.predict(obs, deterministic=True)
    obs, reward, terminated, truncated, info = env.step(action)
    total += reward
print(f"return of 50 steps: {total:.1f}")
