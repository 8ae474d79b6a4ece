"""Pure: a remedy for a script of the user's own, from the published stack that is nearest to its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from harness.nearest import nearest
from harness.publish.published import SHOWN
from harness.remedy import remedy_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.diagnosis import Diagnosis
    from harness.publish.published import Published
    from harness.remedy import Remedy


def remedy_near(published: Published, diagnosis: Diagnosis, environment: Mapping[str, str]) -> Remedy | None:
    """A remedy seen on the published stack that is nearest to the versions of ``environment``, by package."""
    here = {}
    for name in SHOWN:
        try:
            here[name] = Version(environment.get(name, ""))
        except InvalidVersion:  # it was not imported, or was made by hand
            continue
    lock = nearest(here, published.locks)
    if lock is None:
        return None
    return remedy_for(diagnosis.cause, published.scenarios, published.records, stack=lock.stack, same_stack=False)
