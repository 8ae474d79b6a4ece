"""The trials that have been made, on disk: what takes hours goes on where it stopped."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from harness.disk import write_atomically
from harness.errors import UserError
from harness.trials import Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass
class Ledger:
    """The trials so far, in a file with one of them per line; a command that was stopped goes on with it."""

    path: Path
    trials: list[Trial]

    @classmethod
    def at(cls, path: Path) -> Ledger:
        """What the file has, or nothing; UserError where a line is no trial. What was being written is dropped."""
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            return cls(path, [])
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(path, len(whole))
        trials = []
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                trials.append(msgspec.json.decode(line, type=Trial))
            except msgspec.DecodeError as error:
                raise UserError(
                    f"{path}, line {number} is no trial: {error}.",
                    cause="the file is not one that this command wrote",
                    next_step="name another file with --output",
                ) from None
        return cls(path, trials)

    def add(self, trial: Trial) -> Trial:
        """Keep it."""
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode(trial) + b"\n")
        self.trials.append(trial)
        return trial

    def keep(self, trial: Trial, crews: Sequence[Sequence[NDArray[np.float64]]]) -> None:
        """What a trial of ours was judged by, in a file of its own: seconds per step, as ``statistics.of_blocks``.

        An array is named after its crew and the number of its generation: 0-2.
        """
        named = {f"{crew}-{number}": each for crew, of in enumerate(crews) for number, each in enumerate(of)}
        content = io.BytesIO()
        np.savez_compressed(content, **named)  # type: ignore[arg-type]
        folder = self.path.with_name(self.path.name + ".blocks")
        write_atomically(folder / f"{trial.per_cent:g}-{trial.number}.npz", content.getvalue())

    def has(self, tool: str, per_cent: float, number: int) -> bool:
        """Whether this trial has been made."""
        return any((t.tool, t.per_cent, t.number) == (tool, per_cent, number) for t in self.trials)

    def refuse_others(self, stack: str, code: str, limit: Callable[[str, float], float]) -> None:
        """UserError where the trials so far were made with other settings or code: they do not count together.

        ``code`` is a digest of what measures; ``limit`` gives the seconds that a trial may take, from its tool and
        slowdown.
        """
        for each in self.trials:
            limit_s = limit(each.tool, each.per_cent)
            if (each.stack, each.limit_s) != (stack, limit_s):
                raise UserError(
                    f"{self.path} has trials on {each.stack} of {each.limit_s:g} s; asked for are {stack} and "
                    f"{limit_s:g} s.",
                    cause="trials that were made in different ways are not counted together",
                    next_step="name another file with --output, or give the same options as before",
                )
            if each.code != code:
                raise UserError(
                    f"{self.path} has trials by other code than this: {each.code or 'unknown'}, this is {code}.",
                    cause="what measures has changed since, and trials of the two are not counted together",
                    next_step="name another file with --output, or go back to the code of then",
                )
