"""A callback for the Trainer of Transformers, and for those that inherit from it, as in TRL.

from gradmatrix.transformers import Watch

trainer = Trainer(model, callbacks=[Watch()])  # or Watch(assert_trains=True)
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from gradmatrix.watching import Watched

if TYPE_CHECKING:
    from collections.abc import Iterator


class Watch(Watched, TrainerCallback):
    """Watches ``train`` in the first process, from before the optimizer is built.

    If it is added after the Trainer was made, it begins when the training begins, and it does not
    see the exception that ends it.
    """

    whole = False
    """It watches each call of ``train`` from its beginning to its end."""

    def on_init_end(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Watch each call of ``train``: no event comes before the optimizer or after an error."""
        frame = sys._getframe(1)  # noqa: SLF001  (a callback is not told whose it is)
        while not hasattr(frame.f_locals.get("self"), "callback_handler"):
            assert frame.f_back is not None
            frame = frame.f_back
        trainer, self.whole = frame.f_locals["self"], True
        if state.is_world_process_zero:
            trainer.train = self._training()(trainer.train)

    def on_train_begin(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Begin, if the callback was added later."""
        if not self.whole and state.is_world_process_zero:
            self.begin()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """End, if the callback was added later."""
        if not self.whole:
            self.end()

    @contextmanager
    def _training(self) -> Iterator[None]:
        self.begin()
        try:
            yield
        except BaseException as error:
            self.end(error)
            raise
        self.end()
