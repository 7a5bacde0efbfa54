"""Builds tutti_torch, the c10d backend `tutti`, against the installed PyTorch.

    pip install ./interop/torch                         (docs/pytorch.md)

It looks for libtutti.so in this order:
    TUTTI_HOME=PREFIX    an installed Tutti or a build tree: PREFIX/lib*/libtutti.so or PREFIX/libtutti.so
    pkg-config tutti     an installed Tutti
    otherwise            builds it with CMake from the source tree that contains this folder

The library is copied into the module's folder, where the module finds it wherever the package is installed.

The modules are named after PyTorch's version (python/tutti_torch/_builds.py), so one package can have those of several
versions: scripts/release/torch_wheel.sh builds for each into one folder.

TUTTI_CUDA=ON also builds for tensors on GPUs, OFF does not; without it, a GPU on this machine decides. The build needs no
GPU and no driver. It needs a PyTorch with CUDA, and the headers of CUDA's runtime, which are sought in
    PyTorch's folder     pip's package nvidia-cuda-runtime, required by PyTorch's wheels (nvidia/cu13, or cuda_runtime)
    CUDA_HOME            or where nvcc is, or /usr/local/cuda
Without them, the package supports only host memory, unless TUTTI_CUDA=ON asked for more. It says what it builds: `pip
install -v` shows that.
"""

import glob
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup

DESCRIPTION = """
The backend `tutti` of `torch.distributed`, for tensors in host memory and on NVIDIA GPUs. Import it, or let PyTorch do it:

```python
import torch.distributed, tutti_torch

torch.distributed.init_process_group("tutti")    # under torchrun
```

The package has all that it needs but PyTorch.
"""
ROOM = Path(__file__).resolve().parent
SOURCE_TREE = ROOM.parent.parent


def import_torch():
    """Imports PyTorch, even if pip builds in an isolated environment that hides installed packages."""
    try:
        import torch  # noqa: F401
    except ImportError:
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
        asked = subprocess.run(
            [sys.executable, "-c", "import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))"],
            env=environment, capture_output=True, text=True)
        if asked.returncode != 0:
            sys.exit("tutti_torch is built against an installed PyTorch (1.13 or 2.x), and there is none here: install "
                     f"it first, e.g. pip install torch.\n{asked.stderr}")
        sys.path.append(asked.stdout.strip())


def say(sentence):
    print(f"[tutti_torch] {sentence}", flush=True)


def run(*command):
    say(" ".join(map(str, command)))
    subprocess.run(list(map(str, command)), check=True)


def library_below(prefix):
    for pattern in ("libtutti.so", "lib*/libtutti.so", "lib/*/libtutti.so"):
        for found in sorted(glob.glob(str(prefix / pattern))):
            return Path(found)
    return None


def from_home():
    if "TUTTI_HOME" not in os.environ:
        return None
    home = Path(os.environ["TUTTI_HOME"]).resolve()
    library = library_below(home)
    if library is None:
        sys.exit(f"TUTTI_HOME is {home}, but there is no libtutti.so below it")
    # A build tree has no headers of its own and uses this source tree's.
    headers = home / "include"
    return library, headers if (headers / "tutti/tutti.h").exists() else SOURCE_TREE / "include"


def from_pkg_config():
    if shutil.which("pkg-config") is None:
        return None

    def variable(name):
        asked = subprocess.run(["pkg-config", f"--variable={name}", "tutti"], capture_output=True, text=True)
        return asked.stdout.strip() if asked.returncode == 0 else ""

    folder, headers = variable("libdir"), variable("includedir")
    if not folder or not headers:
        return None
    return Path(folder) / "libtutti.so", Path(headers)


def from_source_tree(build_folder):
    if not (SOURCE_TREE / "include/tutti/tutti.h").exists():
        sys.exit("there is no Tutti: set TUTTI_HOME to where it is installed, or build from its source tree")
    folder = Path(build_folder).resolve() / "tutti"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    # Device code takes most of the time; it is for this machine's GPUs, or for all where it has none.
    device_code = [f"-DTUTTI_CUDA={'AUTO' if wants_cuda() else 'OFF'}"]
    if wants_cuda() and torch.cuda.is_available():
        capabilities = {"%d%d" % torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())}
        device_code.append(f"-DTUTTI_CUDA_ARCHITECTURES={';'.join(sorted(capabilities))}")
    say(f"there is no built libtutti.so: it is built from {SOURCE_TREE}, {'with' if wants_cuda() else 'without'} device code, "
        "which takes minutes")
    run("cmake", "-S", SOURCE_TREE, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_UNITY_BUILD=ON",
        "-DTUTTI_TESTS=OFF", "-DTUTTI_BENCH=OFF", "-DTUTTI_TOOLS=OFF", *device_code)
    run("cmake", "--build", folder, "--target", "tutti", "--parallel", str(os.cpu_count() or 1))
    return folder / "libtutti.so", SOURCE_TREE / "include"


def soname(library):
    """The file name that the module will look for: libtutti.so with the major version."""
    for name in sorted(library.parent.glob("libtutti.so.*"), key=lambda path: len(path.name)):
        return name.name
    return library.name


import_torch()
import torch  # noqa: E402
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension  # noqa: E402


def wants_cuda():
    """Whether to build for tensors on GPUs."""
    return torch.version.cuda is not None and {"ON": True, "OFF": False}.get(
        os.environ.get("TUTTI_CUDA", ""), torch.cuda.is_available())


def cuda_headers():
    """The folder of cuda_runtime_api.h, or None to build for host memory alone."""
    if not wants_cuda():
        reason = (f"this machine has no GPU (PyTorch has CUDA {torch.version.cuda}; TUTTI_CUDA=ON builds for it)"
                  if torch.version.cuda and "TUTTI_CUDA" not in os.environ else
                  "TUTTI_CUDA=OFF" if torch.version.cuda else "PyTorch has no CUDA")
        say(f"PyTorch {torch.__version__}: built for tensors on cpu alone, because {reason}")
        return None
    packages = Path(torch.__file__).resolve().parent.parent
    # CUDA's wheels share a folder since CUDA 13; earlier wheels have one folder each.
    beside = [packages / f"nvidia/cu{torch.version.cuda.split('.')[0]}/include",
              packages / "nvidia/cuda_runtime/include"]
    places = beside + ([Path(CUDA_HOME) / "include"] if CUDA_HOME else [])
    for place in places:
        if (place / "cuda_runtime_api.h").exists():
            say(f"PyTorch {torch.__version__}: built for tensors on cpu and cuda; the headers of CUDA's runtime are those of "
                f"{place}")
            return place
    reason = f"cuda_runtime_api.h is not in {' or '.join(map(str, places))}"
    if os.environ.get("TUTTI_CUDA") == "ON":
        sys.exit(f"TUTTI_CUDA=ON, but {reason}")
    say(f"PyTorch {torch.__version__}: built for tensors on cpu alone, because {reason}")
    return None


class BuildWithLibrary(BuildExtension):
    """Finds or builds libtutti.so, and copies it into the module's folder."""

    def all_in_one(self, name, paths):
        """Writes one file that includes all sources, so that PyTorch's headers, most of the work, are read once."""
        text = "".join(f'#include "{(ROOM / path).as_posix()}"\n' for path in paths)
        target = Path(self.build_temp) / f"{name}.cc"
        if not target.exists() or target.read_text() != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return str(target)

    def build_extensions(self):
        library, headers = from_home() or from_pkg_config() or from_source_tree(self.build_temp)
        for extension in self.extensions:
            extension.include_dirs.insert(0, str(headers))
            extension.library_dirs.insert(0, str(library.parent))
            extension.sources = [self.all_in_one(extension.name, extension.sources)]
        super().build_extensions()
        for extension in self.extensions:
            target = Path(self.get_ext_fullpath(extension.name)).parent / soname(library)
            shutil.copyfile(library.resolve(), target)
            say(f"{library} is bundled as {target.name}")


def sources(folder):
    # Relative, as setuptools requires.
    return sorted(os.path.relpath(path, ROOM) for path in (ROOM / folder).glob("*.cc")
                  if not path.stem.endswith("_test"))


# PyTorch 1.13 is built as C++14, and its headers do not support C++20.
standard = "c++20" if int(torch.__version__.split(".")[0]) >= 2 else "c++17"
cuda = cuda_headers()
suffix = runpy.run_path(str(ROOM / "python/tutti_torch/_builds.py"))["suffix"](torch)


def module(name, sources, **named):
    named["include_dirs"] = [str(SOURCE_TREE), *named.get("include_dirs", [])]
    return CppExtension(
        f"tutti_torch.{name}{suffix}",
        sources,
        extra_compile_args=[f"-std={standard}", "-O2", "-g0", "-Wall", "-Wno-deprecated-declarations",
                            "-fvisibility=hidden"],
        extra_link_args=["-Wl,-rpath,$ORIGIN"],
        **named,
    )


modules = [module("_C", sources("csrc") + sources("csrc/ops"), libraries=["tutti"])]
if cuda:
    modules.append(module("_cuda", sources("csrc/cuda"), include_dirs=[str(cuda)], libraries=["c10_cuda"]))

setup(
    name="tutti_torch",
    version="0.2.0",
    description="Tutti as a backend of torch.distributed",
    long_description=DESCRIPTION,
    long_description_content_type="text/markdown",
    author="The Tutti developers",
    license="Apache-2.0",
    package_dir={"": "python"},
    packages=["tutti_torch"],
    py_modules=["tutti_torch_autoload"],
    ext_modules=modules,
    cmdclass={"build_ext": BuildWithLibrary},
    # PyTorch 2.5 and later imports the package automatically; with older versions the program must import it.
    entry_points={"torch.backends": ["tutti = tutti_torch_autoload:register"],
                  "vllm.platform_plugins": ["tutti = tutti_torch_autoload:vllm_platform"],
                  "sglang.srt.platforms": ["tutti = tutti_torch_autoload:sglang_platform"]},
    python_requires=">=3.8",
    zip_safe=False,
)
