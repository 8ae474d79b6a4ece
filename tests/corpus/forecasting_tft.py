# /// script
# dependencies = ["pytorch-forecasting", "lightning", "pandas"]
# [tool.corpus]
# environment = "science"
# field = "Forecasting"
# source = "https://pytorch-forecasting.readthedocs.io/en/stable/getting-started.html"
# optimizer = true
# ///
"""A small temporal fusion transformer of pytorch-forecasting with quantile loss."""

import logging
import warnings

import lightning.pytorch as pl
import numpy as np
import pandas as pd
from pytorch_forecasting import TemporalFusionTransformer, TimeSeriesDataSet
from pytorch_forecasting.metrics import QuantileLoss

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pl.seed_everything(42, verbose=False)
rng = np.random.default_rng(0)
data = pd.DataFrame(
    [
        {"series": str(s), "time_idx": t, "value": np.sin(t / 3 + s) + 0.1 * rng.standard_normal()}
        for s in range(4)
        for t in range(40)
    ]
)

training = TimeSeriesDataSet(
    data,
    time_idx="time_idx",
    target="value",
    group_ids=["series"],
    max_encoder_length=12,
    max_prediction_length=4,
    time_varying_unknown_reals=["value"],
    static_categoricals=["series"],
)
train_dataloader = training.to_dataloader(train=True, batch_size=16, num_workers=0)

tft = TemporalFusionTransformer.from_dataset(
    training,
    learning_rate=0.03,
    hidden_size=8,
    attention_head_size=1,
    hidden_continuous_size=4,
    loss=QuantileLoss(),
    log_interval=-1,
)
trainer = pl.Trainer(
    max_epochs=2,
    limit_train_batches=5,
    accelerator="cpu",
    gradient_clip_val=0.1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(tft, train_dataloaders=train_dataloader)
print("train loss:", trainer.callback_metrics["train_loss_epoch"].item())
