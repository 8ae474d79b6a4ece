# /// script
# dependencies = ["stable-baselines3", "gymnasium"]
# [tool.corpus]
# environment = "science"
# field = "Reinforcement learning"
# source = "https://stable-baselines3.readthedocs.io/en/master/modules/ppo.html"
# optimizer = true
# ///
"""PPO of stable-baselines3 learns CartPole with an MLP policy."""

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy

env = gym.make("CartPole-v1")
model = PPO(
    "MlpPolicy",
    env,
    learning_rate=1e-3,
    n_steps=128,
    batch_size=64,
    n_epochs=4,
    seed=0,
    device="cpu",
)
model.learn(total_timesteps=768)
mean_reward, std_reward = evaluate_policy(model, model.get_env(), n_eval_episodes=2)
print(f"mean reward {mean_reward:.1f} +/- {std_reward:.1f}")
