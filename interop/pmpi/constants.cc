#include "interop/pmpi/constants.h"

#include <dlfcn.h>

#include <cstdint>

#include "base/numbers/datatype.h"
#include "interop/pmpi/below.h"

namespace tutti::pmpi {
namespace {

// The linker may have moved such an object into the program (a copy relocation), and then that is the one that counts.
[[maybe_unused]] void* ObjectOfMpi(const char* name) {
  auto* const moved = dlsym(RTLD_DEFAULT, name);
  return moved != nullptr ? moved : dlsym(the_below.load(std::memory_order_acquire)->library, name);
}

#ifdef OMPI_MAJOR_VERSION
// Open MPI's header makes its constants by this macro, as addresses that the linker would have to know.
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, global) (static_cast<type>(ObjectOfMpi(#global)))
#endif

// Types of which MPI allows arithmetic, as far as Tutti has them, and common ones of which it allows none.
std::vector<NamedType> ListOfNamedTypes() {
  std::vector<NamedType> types = {
      {MPI_SIGNED_CHAR, DataTypeOf<signed char>()},
      {MPI_UNSIGNED_CHAR, DataTypeOf<unsigned char>()},
      {MPI_INT, DataTypeOf<int>()},
      {MPI_UNSIGNED, DataTypeOf<unsigned>()},
      {MPI_LONG, DataTypeOf<long>()},
      {MPI_UNSIGNED_LONG, DataTypeOf<unsigned long>()},
      {MPI_LONG_LONG, DataTypeOf<long long>()},
      {MPI_UNSIGNED_LONG_LONG, DataTypeOf<unsigned long long>()},
      {MPI_INT8_T, DataTypeOf<std::int8_t>()},
      {MPI_UINT8_T, DataTypeOf<std::uint8_t>()},
      {MPI_INT32_T, DataTypeOf<std::int32_t>()},
      {MPI_UINT32_T, DataTypeOf<std::uint32_t>()},
      {MPI_INT64_T, DataTypeOf<std::int64_t>()},
      {MPI_UINT64_T, DataTypeOf<std::uint64_t>()},
      {MPI_AINT, DataTypeOf<MPI_Aint>()},
      {MPI_OFFSET, DataTypeOf<MPI_Offset>()},
      {MPI_COUNT, DataTypeOf<MPI_Count>()},
      {MPI_FLOAT, DataTypeOf<float>()},
      {MPI_DOUBLE, DataTypeOf<double>()},
      {MPI_C_FLOAT_COMPLEX, DataTypeOf<float>(), true},
      {MPI_C_DOUBLE_COMPLEX, DataTypeOf<double>(), true},
      {MPI_INTEGER, DataTypeOf<std::int32_t>()},
      {MPI_REAL, DataTypeOf<float>()},
      {MPI_DOUBLE_PRECISION, DataTypeOf<double>()},
      {MPI_COMPLEX, DataTypeOf<float>(), true},
      {MPI_DOUBLE_COMPLEX, DataTypeOf<double>(), true},
      {MPI_CHAR, std::nullopt},
      {MPI_BYTE, std::nullopt},
      {MPI_PACKED, std::nullopt},
      {MPI_WCHAR, std::nullopt},
      {MPI_SHORT, DataTypeOf<short>()},
      {MPI_UNSIGNED_SHORT, DataTypeOf<unsigned short>()},
      {MPI_INT16_T, DataTypeOf<std::int16_t>()},
      {MPI_UINT16_T, DataTypeOf<std::uint16_t>()},
      {MPI_C_BOOL, std::nullopt},
      {MPI_LONG_DOUBLE, std::nullopt},
  };
  // An MPI without Fortran lacks Fortran's types.
  std::erase_if(types, [](const NamedType& type) { return type.handle == MPI_DATATYPE_NULL || !type.handle; });
  return types;
}

}  // namespace

const Constants& TheConstants() {
  static const Constants constants{MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL, MPI_DATATYPE_NULL,
                                   MPI_BYTE,       MPI_INT,       MPI_UINT64_T,  MPI_SUM,
                                   MPI_PROD,       MPI_MAX,       MPI_MIN,       ListOfNamedTypes()};
  return constants;
}

}  // namespace tutti::pmpi
