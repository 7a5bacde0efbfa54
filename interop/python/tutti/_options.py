"""The options of a new communicator."""

from __future__ import annotations

import numbers
import reprlib
from typing import TypedDict

from . import _core


class Options(TypedDict, total=False):
    """The options of init, split, shrink and grow."""

    name: str | None
    algorithm: str | None
    channels: int | None
    threads: int | None
    deterministic: bool | None
    device: int | None
    init_timeout: float | None
    timeout: float | None


_TEXT = str, "text"
_WHOLE = numbers.Integral, "a whole number"
_SECONDS = numbers.Real, "a number of seconds"
_TAKES: dict[str, tuple[type, str]] = {
    "name": _TEXT, "algorithm": _TEXT, "channels": _WHOLE, "threads": _WHOLE, "deterministic": (bool, "True or False"),
    "device": _WHOLE, "init_timeout": _SECONDS, "timeout": _SECONDS}
_MILLISECONDS = 1000


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else max(1, round(seconds * _MILLISECONDS)) if seconds else 0


def config(call: str, options: Options) -> _core.Config:
    """What the compiled module takes. Raises TypeError as Python does for a function's arguments."""
    for name, value in options.items():
        if name not in _TAKES:
            from ._names import did_you_mean  # only here: its modules take long to import

            raise TypeError(f"{call}() has no option {name!r}{did_you_mean(name, _TAKES)} (there are {', '.join(_TAKES)})")
        kind, described = _TAKES[name]
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{call}(): {name} is {reprlib.repr(value)}, of type {type(value).__name__}, but takes {described}")
    return _core.Config(name=options.get("name"), algorithm=options.get("algorithm"), channels=options.get("channels"),
                        threads=options.get("threads"), deterministic=options.get("deterministic"),
                        device=options.get("device"), init_timeout_ms=_milliseconds(options.get("init_timeout")),
                        timeout_ms=_milliseconds(options.get("timeout")))
