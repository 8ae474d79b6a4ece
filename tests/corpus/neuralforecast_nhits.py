# /// script
# dependencies = ["neuralforecast", "pandas"]
# [tool.corpus]
# environment = "science"
# field = "Forecasting"
# source = "https://nixtlaverse.nixtla.io/neuralforecast/docs/getting-started/quickstart.html"
# optimizer = true
# ///
"""NHITS of neuralforecast learns two noisy waves and predicts a season ahead."""

import logging

import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.models import NHITS

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
rng = np.random.default_rng(0)
time = np.arange(96)
series = [np.sin(2 * np.pi * (time + 3 * i) / 12) + 0.1 * rng.standard_normal(96) for i in (0, 1)]
Y_df = pd.concat(
    pd.DataFrame(
        {"unique_id": str(i), "ds": pd.date_range("2015-01-01", periods=96, freq="MS"), "y": values}
    )
    for i, values in enumerate(series)
)

horizon = 6
model = NHITS(
    h=horizon,
    input_size=2 * horizon,
    max_steps=20,
    mlp_units=3 * [[32, 32]],
    batch_size=2,
    windows_batch_size=16,
    enable_progress_bar=False,
    logger=False,
    enable_checkpointing=False,
    accelerator="cpu",
    random_seed=1,
)
nf = NeuralForecast(models=[model], freq="MS")
nf.fit(df=Y_df)
print(nf.predict().head(3))
