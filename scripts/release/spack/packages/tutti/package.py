# Tutti for Spack (docs/installing.md). Written for Spack 0.23 and 1.x; not built by either yet.
try:  # since Spack 1.0, whose packages live in repositories of their own
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass  # before, the line below has it

from spack.package import *


class Tutti(CMakePackage):
    """Collective communication between the processes of one machine or several, on host memory and on NVIDIA GPUs, with an
    NCCL-shaped C API."""

    license("Apache-2.0", checked_by="Tutti's developers")

    # There is no released archive yet: `spack dev-build -d SOURCE`, or `spack develop` in an environment.
    version("0.2.0")
    manual_download = True

    variant("hwloc", default=True, description="Detect processors, memory and PCI devices with hwloc")
    variant("tools", default=True, description="Build the programs tutti and tutti-bench")
    variant("nccl", default=False, description="Build libnccl.so.2 over Tutti")
    variant("parallel", default=False, description="Build libtutti_parallel, which splits models")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    generator("ninja")

    depends_on("fmt@9:")
    depends_on("highway@1:")
    depends_on("libsodium")
    depends_on("nlohmann-json@3:")
    depends_on("openssl@3:")
    depends_on("pugixml")
    depends_on("hwloc@2:", when="+hwloc")
    depends_on("cli11@2:", type="build", when="+tools")

    conflicts("%gcc@:11", msg="Tutti is written in C++20")
    conflicts("platform=darwin", msg="Tutti runs on Linux")

    def cmake_args(self):
        return [
            self.define_from_variant("TUTTI_HWLOC", "hwloc"),
            self.define_from_variant("TUTTI_BENCH", "tools"),
            self.define_from_variant("TUTTI_TOOLS", "tools"),
            self.define_from_variant("TUTTI_NCCL", "nccl"),
            self.define_from_variant("TUTTI_PARALLEL", "parallel"),
            self.define("TUTTI_MPI", False),
            self.define("TUTTI_EXAMPLES", False),
            self.define("TUTTI_TESTS", False),
        ]
