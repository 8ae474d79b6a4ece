# /// script
# dependencies = ["stable-baselines3", "gymnasium"]
# [tool.corpus]
# environment = "science"
# field = "Reinforcement learning"
# source = "https://stable-baselines3.readthedocs.io/en/master/guide/custom_env.html"
# optimizer = true
# ///
"""DQN of stable-baselines3 in an environment of one's own: an agent goes left on a line."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import DQN


class GoLeftEnv(gym.Env):
    LEFT, RIGHT = 0, 1

    def __init__(self, grid_size=10):
        super().__init__()
        self.grid_size = grid_size
        self.agent_pos = grid_size - 1
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(0, grid_size, shape=(1,), dtype=np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.agent_pos = self.grid_size - 1
        return np.array([self.agent_pos], dtype=np.float32), {}

    def step(self, action):
        self.agent_pos += -1 if action == self.LEFT else 1
        self.agent_pos = int(np.clip(self.agent_pos, 0, self.grid_size))
        terminated = self.agent_pos == 0
        reward = 1.0 if terminated else -0.1
        return np.array([self.agent_pos], dtype=np.float32), reward, terminated, False, {}


model = DQN(
    "MlpPolicy",
    GoLeftEnv(),
    learning_starts=100,
    target_update_interval=100,
    policy_kwargs=dict(net_arch=[32, 32]),
    seed=0,
    device="cpu",
)
model.learn(total_timesteps=500)
obs, _ = model.get_env().envs[0].reset()
print("action at the start:", model.predict(obs, deterministic=True)[0])
