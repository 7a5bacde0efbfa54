"""Groups of Ray's actors over Tutti, by the calls of ray.util.collective.

    import tutti.ray
    tutti.ray.register()       # on the driver, and in every actor or by the hook of runtime_env
    create_collective_group(actors, 4, [0, 1, 2, 3], backend="tutti")

docs/ray.md in Tutti's source tree describes it. Raises ImportError with a Ray that is too old.
"""

from __future__ import annotations

from typing import Any

import ray

_OLDEST = (2, 56)  # the first Ray that takes backends of other packages
if tuple(int(part) for part in ray.__version__.split(".")[:2]) < _OLDEST:
    raise ImportError(f"Ray {ray.__version__} takes no backends of other packages: install ray>=2.56")

from ray.util import collective  # noqa: E402

from ._group import TuttiGroup  # noqa: E402

__all__ = ["TuttiGroup", "communicator", "register", "shrink"]

BACKEND = "TUTTI"


def register(**options: Any) -> None:
    """Makes the backend "tutti" known to Ray in this process. A second call replaces the options.

    Options: those of tutti.init, for all groups that this process joins later: timeout, init_timeout, algorithm, ...
    """
    TuttiGroup.options = options
    if not collective.is_backend_available(BACKEND):
        collective.register_collective_backend(BACKEND, TuttiGroup)


def _group(group_name: str) -> TuttiGroup:
    group = collective.get_group_handle(group_name)
    if not isinstance(group, TuttiGroup):
        raise ValueError(f"the group {group_name!r} is not one of Tutti's")
    return group


def communicator(group_name: str = "default") -> Any:
    """The tutti.Communicator of a group, for what Ray's calls lack: all-to-all, v-forms, objects, streams.

    It belongs to the group: do not close it.
    """
    return _group(group_name).communicator


def shrink(group_name: str = "default") -> None:
    """Makes the group one of the actors that live, after one of them failed. All of them call it.

    Ranks are numbered anew, in the old order: ask get_rank and get_collective_group_size again.
    """
    _group(group_name).shrink()
