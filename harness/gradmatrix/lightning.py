"""A callback for Lightning that says whether a training really trains.

from gradmatrix.lightning import Watch

trainer = Trainer(callbacks=[Watch()])  # or Watch(assert_trains=True)
"""

from __future__ import annotations

from typing import Any

from gradmatrix.watching import Watched

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback


class Watch(Watched, Callback):
    """Watches ``fit`` in the first process, from before the optimizers are built."""

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        """Begin."""
        if stage == "fit" and trainer.is_global_zero:
            self.begin()

    def on_exception(self, _trainer: Any, _model: Any, exception: BaseException) -> None:
        """End with what ended the training."""
        self.end(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        """End after all other hooks."""
        self.end()
