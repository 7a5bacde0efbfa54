"""Tutti as a backend of torch.distributed. Importing this package enables `init_process_group("tutti")`.

PyTorch 2.5 and later imports it automatically. See docs/pytorch.md.
"""

import torch
import torch.distributed

from tutti_torch import _builds

_C, _cuda = _builds.load(torch)
if _cuda is not None:
    _C.take_devices_of("cuda", _cuda.native_stream())

# A call that was refused before anything was sent: a ValueError and a RuntimeError.
InvalidArgument = _C.InvalidArgument

__version__ = "0.2.0"
DEVICES = ("cpu", "cuda") if _cuda is not None else ("cpu",)


def library_version():
    """The version of libtutti.so that is loaded."""
    return _C.library_version()


# One process has one library of a soname: the first that any package brought. A patch version does not change the ABI.
if library_version().rpartition(".")[0] != __version__.rpartition(".")[0]:
    raise ImportError(f"this is the package tutti-torch {__version__}, but libtutti {library_version()} is loaded: install "
                      "the same version of tutti and tutti-torch, and take other folders with a libtutti.so out of "
                      "LD_LIBRARY_PATH")


def _create(options, _process_group_options):
    timeout = options.timeout
    seconds = timeout.total_seconds() if hasattr(timeout, "total_seconds") else float(timeout)
    return _C.create(options.store, options.group_rank, options.group_size, seconds, f"group {options.group_id}",
                     list(options.global_ranks_in_group), getattr(options, "enable_reconfigure", False))


def _register():
    backend = torch.distributed.Backend
    if "TUTTI" in backend._plugins:
        return
    if int(torch.__version__.split(".")[0]) >= 2:
        # Some PyTorch versions also make a new backend the default for CUDA. Importing this package must not do that.
        defaults = dict(backend.default_device_backend_map)
        backend.register_backend("tutti", _create, extended_api=True, devices=list(DEVICES))
        backend.default_device_backend_map.clear()
        backend.default_device_backend_map.update(defaults)
    else:
        backend.register_backend("tutti", _create, extended_api=True)


if torch.distributed.is_available():
    _register()
