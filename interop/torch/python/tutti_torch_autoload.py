"""What PyTorch 2.5 and later calls when it is imported (entry point `torch.backends`).

Apart from the package, because an exception here would make `import torch` fail: a backend that was built for another
PyTorch is no reason for that.
"""

import warnings


def register():
    try:
        import tutti_torch  # noqa: F401
    except ImportError as error:
        warnings.warn(f"backend tutti of torch.distributed is not available: {error}", stacklevel=2)
