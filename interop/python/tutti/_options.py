"""The options of a new communicator."""

from __future__ import annotations

import numbers
import reprlib
from typing import TypedDict

from . import _core
from ._errors import InvalidArgumentError


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
_LARGEST_INT = 2**31 - 1  # of the C API
_LONGEST = _LARGEST_INT // _MILLISECONDS


def _milliseconds(call: str, name: str, seconds: float | None) -> int | None:
    """Raises InvalidArgumentError for what is no time to wait."""
    if seconds is None:
        return None
    if not 0 <= seconds <= _LONGEST:  # NaN neither
        raise InvalidArgumentError(f"{call}(): {name} is {seconds}, but takes 0 to {_LONGEST} seconds; 0 is for ever")
    return max(1, round(seconds * _MILLISECONDS)) if seconds else 0


def mistyped(call: str, name: str, value: object, described: str) -> TypeError:
    """What to raise for an argument of a wrong type."""
    return TypeError(f"{call}(): {name} is {reprlib.repr(value)}, of type {type(value).__name__}, but takes {described}")


def whole(call: str, name: str, value: object) -> int:
    """An argument as the C API's int. Raises TypeError or InvalidArgumentError if it is none."""
    kind, described = _WHOLE
    if not isinstance(value, kind):
        raise mistyped(call, name, value, described)
    number = int(value)
    if not -_LARGEST_INT - 1 <= number <= _LARGEST_INT:
        raise InvalidArgumentError(f"{call}(): {name} is {number}, but takes whole numbers of 32 bits")
    return number


def unique(call: str, value: object) -> bytes:
    """The argument id. Raises TypeError if it is no bytes."""
    if not isinstance(value, bytes):
        raise mistyped(call, "id", value, "the bytes of unique_id()")
    return value


def config(call: str, options: Options) -> _core.Config:
    """What the compiled module takes. Raises TypeError as Python does for a function's arguments, and InvalidArgumentError."""
    for name, value in options.items():
        if name not in _TAKES:
            from ._names import did_you_mean  # only here: its modules take long to import

            raise TypeError(f"{call}() has no option {name!r}{did_you_mean(name, _TAKES)} (there are {', '.join(_TAKES)})")
        kind, described = _TAKES[name]
        if value is not None and not isinstance(value, kind):
            raise mistyped(call, name, value, described)

    def number(name: str, value: int | None) -> int | None:
        return None if value is None else whole(call, name, value)

    return _core.Config(name=options.get("name"), algorithm=options.get("algorithm"),
                        channels=number("channels", options.get("channels")),
                        threads=number("threads", options.get("threads")), deterministic=options.get("deterministic"),
                        device=number("device", options.get("device")),
                        init_timeout_ms=_milliseconds(call, "init_timeout", options.get("init_timeout")),
                        timeout_ms=_milliseconds(call, "timeout", options.get("timeout")))
