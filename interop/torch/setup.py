"""Builds tutti_torch, the c10d backend `tutti`, against the installed PyTorch.

    pip install ./interop/torch                         (docs/pytorch.md)

It looks for libtutti.so in this order:
    TUTTI_HOME=PREFIX    an installed Tutti or a build tree: PREFIX/lib*/libtutti.so or PREFIX/libtutti.so
    pkg-config tutti     an installed Tutti
    otherwise            builds it with CMake from the source tree that contains this folder

The library is copied into the module's folder, where the module finds it wherever the package is installed.

The modules are named after PyTorch's version (python/tutti_torch/_builds.py), so one package can have those of several
versions: scripts/release/torch_wheel.sh builds for each into one folder.

If PyTorch has CUDA, a second module supports tensors on GPUs. It needs the headers of CUDA's runtime, found in
    PyTorch's folder     pip's package nvidia-cuda-runtime, required by PyTorch's wheels (nvidia/cu13, or cuda_runtime)
    CUDA_HOME            or where nvcc is, or /usr/local/cuda
Without the headers, the package supports only host memory. The build needs no GPU and no driver.
"""

import glob
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup

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


def run(*command):
    print("[tutti_torch]", " ".join(map(str, command)), flush=True)
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
    run("cmake", "-S", SOURCE_TREE, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DTUTTI_TESTS=OFF",
        "-DTUTTI_BENCH=OFF", "-DTUTTI_TOOLS=OFF")
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


def cuda_headers():
    """The folder of cuda_runtime_api.h, or None if it is missing or PyTorch has no CUDA."""
    if torch.version.cuda is None:
        return None
    packages = Path(torch.__file__).resolve().parent.parent
    # CUDA's wheels share a folder since CUDA 13; earlier wheels have one folder each.
    beside = [packages / f"nvidia/cu{torch.version.cuda.split('.')[0]}/include",
              packages / "nvidia/cuda_runtime/include"]
    places = beside + ([Path(CUDA_HOME) / "include"] if CUDA_HOME else [])
    for place in places:
        if (place / "cuda_runtime_api.h").exists():
            print(f"[tutti_torch] PyTorch has CUDA {torch.version.cuda}; the headers of CUDA's runtime are those of "
                  f"{place}: built for tensors on cpu and cuda", flush=True)
            return place
    print(f"[tutti_torch] PyTorch has CUDA {torch.version.cuda}, but cuda_runtime_api.h is not in "
          f"{' or '.join(map(str, places))}: built for tensors on cpu alone", flush=True)
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
            print(f"[tutti_torch] {library} is bundled as {target.name}", flush=True)


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
    license="Apache-2.0",
    package_dir={"": "python"},
    packages=["tutti_torch"],
    py_modules=["tutti_torch_autoload"],
    ext_modules=modules,
    cmdclass={"build_ext": BuildWithLibrary},
    # PyTorch 2.5 and later imports the package automatically; with older versions the program must import it.
    entry_points={"torch.backends": ["tutti = tutti_torch_autoload:register"]},
    python_requires=">=3.8",
    zip_safe=False,
)
