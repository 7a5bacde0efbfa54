// The constants of MPI that jaxlib uses. The generated unsupported.c has all others (CMakeLists.txt).
#include <cstdint>

#include "interop/jax/abi.h"

namespace tutti::jax {

extern "C" {

// This library's version as an MPI for MPItrampoline, and that of the ABI whose names it has (abi_names.txt).
extern const int mpiwrapper_version_major = TUTTI_MAJOR;
extern const int mpiwrapper_version_minor = TUTTI_MINOR;
extern const int mpiwrapper_version_patch = TUTTI_PATCH;
extern const int mpiabi_version_major = 2;
extern const int mpiabi_version_minor = 10;
extern const int mpiabi_version_patch = 0;
void mpiwrapper_export_fortran_constants_() {}

extern const int MPIABI_SUCCESS = kSuccess;
extern const int MPIABI_UNDEFINED = -1;  // a colour
extern const int MPIABI_THREAD_SINGLE = 0;
extern const int MPIABI_THREAD_FUNNELED = 1;
extern const int MPIABI_THREAD_SERIALIZED = 2;
extern const int MPIABI_THREAD_MULTIPLE = 3;
extern const Handle MPIABI_COMM_WORLD = kWorld;

extern const Handle MPIABI_BYTE = HandleOf<std::uint8_t>();
extern const Handle MPIABI_INT8_T = HandleOf<std::int8_t>();
extern const Handle MPIABI_UINT8_T = HandleOf<std::uint8_t>();
extern const Handle MPIABI_INT16_T = HandleOf<std::int16_t>();
extern const Handle MPIABI_UINT16_T = HandleOf<std::uint16_t>();
extern const Handle MPIABI_INT32_T = HandleOf<std::int32_t>();
extern const Handle MPIABI_UINT32_T = HandleOf<std::uint32_t>();
extern const Handle MPIABI_INT64_T = HandleOf<std::int64_t>();
extern const Handle MPIABI_UINT64_T = HandleOf<std::uint64_t>();
extern const Handle MPIABI_FLOAT = HandleOf<float>();
extern const Handle MPIABI_DOUBLE = HandleOf<double>();
extern const Handle MPIABI_C_COMPLEX = HandleOf<float>(kComplex);
extern const Handle MPIABI_C_FLOAT_COMPLEX = HandleOf<float>(kComplex);
extern const Handle MPIABI_C_DOUBLE_COMPLEX = HandleOf<double>(kComplex);

extern const Handle MPIABI_SUM = HandleOf(tuttiSum);
extern const Handle MPIABI_PROD = HandleOf(tuttiProd);
extern const Handle MPIABI_MAX = HandleOf(tuttiMax);
extern const Handle MPIABI_MIN = HandleOf(tuttiMin);
}

}  // namespace tutti::jax
