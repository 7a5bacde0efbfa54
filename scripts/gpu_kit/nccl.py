#!/usr/bin/env python3
"""Makes NVIDIA's NCCL small enough to carry in the kit.

    scripts/gpu_kit/nccl.py FILE|pypi ARCHITECTURES OUT.gz

`pypi` fetches the version below. Code for other GPUs than ARCHITECTURES ("90 100") is taken out, and zeros behind the
rest, which compress to nothing, leave every address as it was; symbols of debuggers are removed. The result is loaded
and asked for its version before it is packed.
"""
import ctypes
import gzip
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

WHEEL = ("nvidia-nccl-cu13==2.32.3 "
         "--hash=sha256:1459723080ac889d73a26edfa3e04383a7928ab31ac8f0ec43b3ea9548b04ff3")  # x86-64, 305 MB

SECTIONS = {".nv_fatbin", "__nv_relfatbin"}
# A section is a row of containers; a container is a header (magic, version, its length, length of the entries) and
# entries; an entry is a header (kind, version, its length, length of the code, ...) and code. NVIDIA does not document
# them; cuobjdump lists what this leaves.
CONTAINER, MAGIC = struct.Struct("<IHHQ"), 0xBA55ED50
ENTRY, ARCHITECTURE, MACHINE_CODE = struct.Struct("<HHIQ"), 28, 2
ALIGNMENT = 8


def fetch(folder):
    requirements = folder / "requirements.txt"
    requirements.write_text(WHEEL, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--no-cache-dir", "--only-binary", ":all:", "--require-hashes", "--requirement", requirements,
                    "--dest", folder], check=True)
    wheel, = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        return files.extract("nvidia/nccl/lib/libnccl.so.2", folder)


def sections(image):
    """(name, begin, end) of the sections of an ELF file of 64 bits."""
    table, = struct.unpack_from("<Q", image, 40)
    count, names = struct.unpack_from("<HH", image, 60)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, table + 64 * index) for index in range(count)]
    for header in headers:
        at = headers[names][4] + header[0]
        yield image[at:image.index(0, at)].decode(), header[4], header[4] + header[5]


def runs_on(code, gpu):
    """Machine code runs on GPUs of the same major version and a minor version that is not below its own."""
    return code // 10 == gpu // 10 and code <= gpu


def entries(image, at, end):
    """(begin, end, whether it is machine code, for which GPU) of the entries of a container."""
    while at < end:
        kind, _, header, length = ENTRY.unpack_from(image, at)
        code, = struct.unpack_from("<I", image, at + ARCHITECTURE)
        yield at, at + header + length, kind == MACHINE_CODE, code
        at += header + length
    if at != end:
        sys.exit("this NCCL has its code in a form that is not known")


def take_out(image, gpus):
    """Leaves of each container what runs on the GPUs. One without such code stays, so that CUDA can say so."""
    for name, at, end in sections(image):
        if name not in SECTIONS:
            continue
        while at + CONTAINER.size <= end:
            magic, version, header, length = CONTAINER.unpack_from(image, at)
            if magic != MAGIC:
                at += ALIGNMENT  # containers are aligned
                continue
            begin, container, at = at + header, at, at + header + length
            kept = b"".join(image[first:last] for first, last, machine_code, code in entries(image, begin, at)
                            if machine_code and any(runs_on(code, gpu) for gpu in gpus))
            if kept:
                CONTAINER.pack_into(image, container, magic, version, header, len(kept))
                image[begin:at] = kept.ljust(length, b"\0")


def main(source, architectures, out):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        image = bytearray(pathlib.Path(fetch(folder) if source == "pypi" else source).read_bytes())
        take_out(image, [int(each) for each in architectures.split()])
        library = folder / "libnccl.so.2"
        library.write_bytes(image)
        subprocess.run(["strip", "--strip-unneeded", library], check=True)
        version = ctypes.c_int()
        if ctypes.CDLL(library).ncclGetVersion(ctypes.byref(version)) != 0:
            sys.exit(f"{source}: ncclGetVersion fails")
        with open(library, "rb") as plain, gzip.GzipFile(out, "wb", mtime=0) as packed:
            shutil.copyfileobj(plain, packed)
        print(f"[kit] NCCL {version.value}: {pathlib.Path(out).stat().st_size // 1000} KB")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
