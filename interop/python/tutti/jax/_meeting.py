"""How JAX's processes find each other for Tutti: by the store of jax.distributed's coordinator, as for Gloo.

The store is open to everybody who reaches the coordinator. So it may pass the id of a communicator, which has a secret, only
within a host, where Tutti refuses processes of other users; between hosts TUTTI_SECRET protects it (tutti.unique_id).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import pathlib
import re
import threading
from typing import Any

# Type checkers run without JAX. Of jax._src.distributed JAX exports no more than initialize() and shutdown().
import jax  # type: ignore[import-not-found,unused-ignore]
import jax._src.distributed  # type: ignore[import-not-found,unused-ignore]
import jaxlib  # type: ignore[import-not-found,unused-ignore]

import tutti

_OLDEST = (0, 10)  # the first jaxlib that was tested; older ones have other numbers of devices
_ID = "+"  # an id follows, or the reason why there is none
_NONE = "-"
_THREADS_VARIABLE = "NPROC"  # of XLA: threads of its pools
_THREADS_PER_DEVICE = 8
_FOREVER_MS = 24 * 60 * 60 * 1000  # Tutti's longest timeout

_IsHere = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32)
_Meet = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int32), ctypes.c_int, ctypes.c_int,
                         ctypes.POINTER(ctypes.c_char), ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)


class _Meeting(ctypes.Structure):
    """tuttiJaxMeeting_t of interop/jax/communicator.h."""

    _fields_ = [("process", ctypes.c_int), ("processes", ctypes.c_int), ("init_timeout_ms", ctypes.c_int),
                ("is_here", _IsHere), ("meet", _Meet)]


class _Absent(Exception):
    """A process has not come in time."""


class _Store:
    """What the processes of a job tell each other."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms or _FOREVER_MS

    def put(self, key: str, value: str) -> None:
        self._client.key_value_set(f"tutti/{key}", value)

    def get(self, key: str, whose: str) -> str:
        try:
            return str(self._client.blocking_key_value_get(f"tutti/{key}", self._timeout_ms))
        except Exception as error:
            raise _Absent(f"{whose} has not come to Tutti within {self._timeout_ms / 1000:g} s: does it run, and with Tutti as "
                          f"its CPU collectives? ({error})") from None

    @property
    def _client(self) -> Any:
        return jax._src.distributed.global_state.client


def _host() -> str:
    """Equal on the processes that share a host's kernel, and its network."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.stat('/proc/self/ns/net').st_ino}"


class _Meetings:
    def __init__(self, timeout_ms: int) -> None:
        self._store = _Store(timeout_ms)
        self._lock = threading.Lock()
        self._process_of: dict[int, int] = {}
        self._hosts: dict[int, str] = {}
        self.here = jax._src.distributed.global_state.process_id
        self._hosts[self.here] = _host()
        self._store.put(f"host/{self.here}", self._hosts[self.here])

    def process_of(self, device: int) -> int:
        with self._lock:
            if device not in self._process_of:
                self._process_of = {each.id: each.process_index for each in jax.devices("cpu")}
            return self._process_of.get(device, -1)

    def _hosts_of(self, processes: set[int]) -> set[str]:
        for process in processes - self._hosts.keys():
            self._hosts[process] = self._store.get(f"host/{process}", f"process {process}")
        return {self._hosts[process] for process in processes}

    def comm_id(self, number: int, devices: list[int], rank: int) -> bytes:
        """The id by which the devices' ranks join. Raises _Absent, or RuntimeError with the reason why there is none."""
        if jaxlib.version.__version_info__[:2] < _OLDEST:
            raise RuntimeError(f"jaxlib {jaxlib.__version__} is too old: Tutti takes part from {'.'.join(map(str, _OLDEST))} on")
        if len(self._hosts_of({self.process_of(device) for device in devices})) > 1 and "TUTTI_SECRET" not in os.environ:
            raise RuntimeError("the processes are on several hosts, and TUTTI_SECRET is not set: everybody who reaches JAX's "
                               "coordinator could join. Set it to the same random text for all processes, for example the "
                               "output of: head -c 32 /dev/urandom | base64")
        key = f"{number}/{hashlib.sha256(repr(devices).encode()).hexdigest()}"
        if rank == 0:
            try:
                comm_id = tutti.unique_id()
            except tutti.Error as error:
                self._store.put(key, _NONE + str(error))
                raise RuntimeError(str(error)) from None
            self._store.put(key, _ID + comm_id.hex())
            return comm_id
        first = f"device {devices[0]} of process {self.process_of(devices[0])}"
        answer = self._store.get(key, first)
        if not answer.startswith(_ID):
            raise RuntimeError(f"{first} could not make a rendezvous: {answer.removeprefix(_NONE)}")
        return bytes.fromhex(answer.removeprefix(_ID))


def _devices_here() -> int:
    """Of the CPU devices that this process is about to make, as JAX is told."""
    forced = re.search(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return max(int(jax.config.jax_num_cpu_devices), int(forced.group(1)) if forced else 1)


def _enough_threads() -> None:
    """Lets XLA start more threads than cores where the process has several devices.

    A thread waits in a device's collective until the other devices come to it. If calls are on their way that the program has
    not waited for, and XLA has no more threads than devices, then none may be left for the device that the others wait for.
    """
    devices = _devices_here()
    if devices > 1:
        os.environ.setdefault(_THREADS_VARIABLE, str(max(os.cpu_count() or 1, _THREADS_PER_DEVICE * devices)))


_kept: list[object] = []  # what the library calls lives as long as the process


def take_part(library: str) -> None:
    """Chooses Tutti for JAX's CPU collectives, and tells the library how this job's processes meet."""
    state = jax._src.distributed.global_state
    if state.client is None:
        return  # one process: JAX computes its collectives by itself
    jax.config.update("jax_cpu_collectives_implementation", "mpi")
    _enough_threads()
    settings = tutti.settings()
    timeout_ms = int(settings["TUTTI_INIT_TIMEOUT_MS" if "TUTTI_INIT_TIMEOUT_MS" in os.environ else "TUTTI_TIMEOUT_MS"])
    meetings = _Meetings(timeout_ms)

    def is_here(device: int) -> int:
        return int(meetings.process_of(device) == meetings.here)

    def meet(number: int, devices: Any, count: int, rank: int, comm_id: Any, why: Any, why_bytes: int) -> int:
        try:
            found = meetings.comm_id(number, devices[:count], rank)
            ctypes.memmove(comm_id, found, len(found))
            return 0
        except Exception as error:
            text = str(error).encode()[:why_bytes - 1] + b"\0"
            ctypes.memmove(why, text, len(text))
            return 1

    meeting = _Meeting(state.process_id, state.num_processes, timeout_ms, _IsHere(is_here), _Meet(meet))
    _kept.append(meeting)
    ctypes.CDLL(library).tuttiJaxMeetBy(ctypes.byref(meeting))
