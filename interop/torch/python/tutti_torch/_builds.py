"""Which extension modules fit the PyTorch that runs.

PyTorch's C++ interface changes with each minor version, so an extension fits one of them. A package has the modules of
each version that it was built for, named _C_2_15 and so on, and loads those that fit. setup.py runs this file, too, and
must not import the package for it.
"""

import glob
import importlib
import importlib.machinery
import os

BUILD = ("pip install --no-build-isolation --no-deps --force-reinstall ./interop/torch  (in Tutti's source tree; "
         "docs/pytorch.md)")


def suffix(torch):
    """The end of the module's names. `torch` is the PyTorch module."""
    minor = "_".join(torch.__version__.split("+")[0].split(".")[:2])
    # PyPI's packages of PyTorch 2.6 and earlier are built with the C++ library's old ABI, others with the new one.
    return f"_{minor}" if torch._C._GLIBCXX_USE_CXX11_ABI else f"_{minor}_old_abi"


def _text(end):
    """'_2_6_old_abi' -> '2.6 (old C++ ABI)'"""
    return end.replace("_old_abi", " (old C++ ABI)").lstrip("_").replace("_", ".")


def _known():
    """The suffixes of the modules in this package."""
    here = os.path.dirname(os.path.abspath(__file__))
    known = set()
    for ending in importlib.machinery.EXTENSION_SUFFIXES:
        for path in glob.glob(os.path.join(here, "_C_*" + ending)):
            known.add(os.path.basename(path)[len("_C"):].split(".")[0])
    return sorted(known, key=lambda end: [int(part) for part in end.split("_") if part.isdigit()])


def load(torch):
    """Returns (_C, _cuda); _cuda is None if this PyTorch has no CUDA or the package was built without it.

    Raises ImportError with what to do if no module fits.
    """
    end = suffix(torch)
    known = _known()
    if end not in known:
        raise ImportError(f"this package tutti_torch is built for PyTorch {', '.join(map(_text, known)) or '(none)'}, "
                          f"but PyTorch {_text(end)} runs ({torch.__version__}). Install a PyTorch that it is built "
                          f"for, or build it for this one: {BUILD}")
    try:
        module = importlib.import_module(f"tutti_torch._C{end}")
    except ImportError as error:
        raise ImportError(f"tutti_torch does not fit PyTorch {torch.__version__} ({error}); build it again: "
                          f"{BUILD}") from error
    cuda = None
    if torch.version.cuda is not None:
        try:
            cuda = importlib.import_module(f"tutti_torch._cuda{end}")
        except ModuleNotFoundError:
            pass  # built for host memory alone
    return module, cuda
