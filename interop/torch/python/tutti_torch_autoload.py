"""The function that PyTorch 2.5 and later calls when it is imported (entry point `torch.backends`).

It is not in the package, because an exception here would make `import torch` fail, which must not happen only because
the backend was built for another PyTorch.
"""

import warnings


def register():
    try:
        import tutti_torch  # noqa: F401
    except ImportError as error:
        warnings.warn(f"backend tutti of torch.distributed is not available: {error}", stacklevel=2)
