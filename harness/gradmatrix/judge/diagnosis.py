"""Why the gradient of an observed script does not flow: the cause, the module, the line, in words.

``diagnose`` looks for signs in their order, and the first sign that is found is the diagnosis. The
signs stand in ``signs/``, by what went wrong.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gradmatrix.core.model import Gradient
from gradmatrix.core.outcomes import RANKS_DIFFER
from gradmatrix.judge.signs.calls import (
    never_stepped,
    never_zeroed,
    no_backward,
    not_called,
    not_trained,
    unmoved,
)
from gradmatrix.judge.signs.frozen import (
    adapted,
    frozen_since,
    nothing_learns,
    shared,
    unloaded,
    unmatched,
)
from gradmatrix.judge.signs.held import (
    given_twice,
    holds_a_copy,
    left_out,
    made_in_forward,
    missed,
    not_registered,
    nothing_held,
    replaced,
    used_up,
)
from gradmatrix.judge.signs.lost import no_gradient
from gradmatrix.judge.signs.nonfinite import (
    labels_ignored,
    not_finite,
    search_not_finite,
    steps_skipped,
)
from gradmatrix.judge.signs.parts import constant_part, mislinked, rebuilt_part
from gradmatrix.judge.signs.raised import changed_leaf, exception, spoiled
from gradmatrix.judge.signs.steps import (
    clipped_scaled,
    drifted,
    faded,
    no_rate,
    not_updated,
    stepped_scaled,
)
from gradmatrix.judge.signs.zeros import died, zero_gradient
from gradmatrix.judge.verdict import gradient_status, judge_observation
from gradmatrix.judge.wording import Diagnosis, first_sign

if TYPE_CHECKING:
    from gradmatrix.core.observation import Observation
    from gradmatrix.judge.wording import Sign

FALSE_ALARM = re.compile(r"None of the inputs have requires_grad=True")


def diagnose(seen: Observation) -> Diagnosis | None:
    """Why the gradient does not flow.

    Returns:
        None if the script never came to train, or if no sign was found. A script whose parameters
        all learn may still have a sign: gradients that are never cleared, for example.
    """
    outcome = judge_observation(seen).outcome
    if not outcome.judged or seen.reached == "import":
        return None
    if outcome.trains or str(outcome) == RANKS_DIFFER:
        silent: tuple[Sign, ...] = (
            not_called,
            unmoved,
            not_registered,
            made_in_forward,
            used_up,
            left_out,
            given_twice,
            missed,
            faded,
            adapted,
            shared,
            rebuilt_part,
            constant_part,
            mislinked,
            never_zeroed,
            clipped_scaled,
            stepped_scaled,
            died,
            drifted,
        )
        return first_sign(silent, seen)
    signs: tuple[Sign, ...] = (
        spoiled,
        changed_leaf,
        not_called,
        labels_ignored,
        steps_skipped,
        search_not_finite,
        stepped_scaled,
        not_finite,
        not_trained,
        no_backward,
        unloaded,
        unmatched,
        nothing_learns,
        nothing_held,
        made_in_forward,
        used_up,
        given_twice,
        holds_a_copy,
        never_stepped,
        not_registered,
        no_rate,
        replaced,
        frozen_since,
        no_gradient,
        not_updated,
        zero_gradient,
        exception,
    )
    return first_sign(signs, seen)


def false_alarms(seen: Observation) -> tuple[str, ...]:
    """The known warnings about missing gradients, if everything that should learn does."""
    if gradient_status(seen) is not Gradient.FLOWING or seen.raised is not None:
        return ()
    return tuple(warned.message for warned in seen.warnings if FALSE_ALARM.search(warned.message))
