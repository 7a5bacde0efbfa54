#include "interop/pmpi/constants.h"

#include <dlfcn.h>

#include <cstdint>
#include <type_traits>

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

template <typename Integer>
tuttiDataType_t IntegerType() {
  constexpr bool kSigned = std::is_signed_v<Integer>;
  static_assert(sizeof(Integer) == 1 || sizeof(Integer) == 4 || sizeof(Integer) == 8);
  if constexpr (sizeof(Integer) == 1) return kSigned ? tuttiInt8 : tuttiUint8;
  if constexpr (sizeof(Integer) == 4) return kSigned ? tuttiInt32 : tuttiUint32;
  return kSigned ? tuttiInt64 : tuttiUint64;
}

// Types of which MPI allows arithmetic, as far as Tutti has them, and common ones of which it allows none.
std::vector<NamedType> ListOfNamedTypes() {
  std::vector<NamedType> types = {
      {MPI_SIGNED_CHAR, tuttiInt8},
      {MPI_UNSIGNED_CHAR, tuttiUint8},
      {MPI_INT, IntegerType<int>()},
      {MPI_UNSIGNED, IntegerType<unsigned>()},
      {MPI_LONG, IntegerType<long>()},
      {MPI_UNSIGNED_LONG, IntegerType<unsigned long>()},
      {MPI_LONG_LONG, IntegerType<long long>()},
      {MPI_UNSIGNED_LONG_LONG, IntegerType<unsigned long long>()},
      {MPI_INT8_T, tuttiInt8},
      {MPI_UINT8_T, tuttiUint8},
      {MPI_INT32_T, tuttiInt32},
      {MPI_UINT32_T, tuttiUint32},
      {MPI_INT64_T, tuttiInt64},
      {MPI_UINT64_T, tuttiUint64},
      {MPI_AINT, IntegerType<MPI_Aint>()},
      {MPI_OFFSET, IntegerType<MPI_Offset>()},
      {MPI_COUNT, IntegerType<MPI_Count>()},
      {MPI_FLOAT, tuttiFloat32},
      {MPI_DOUBLE, tuttiFloat64},
      {MPI_C_FLOAT_COMPLEX, tuttiFloat32, true},
      {MPI_C_DOUBLE_COMPLEX, tuttiFloat64, true},
      {MPI_INTEGER, tuttiInt32},
      {MPI_REAL, tuttiFloat32},
      {MPI_DOUBLE_PRECISION, tuttiFloat64},
      {MPI_COMPLEX, tuttiFloat32, true},
      {MPI_DOUBLE_COMPLEX, tuttiFloat64, true},
      {MPI_CHAR, std::nullopt},
      {MPI_BYTE, std::nullopt},
      {MPI_PACKED, std::nullopt},
      {MPI_WCHAR, std::nullopt},
      {MPI_SHORT, std::nullopt},
      {MPI_UNSIGNED_SHORT, std::nullopt},
      {MPI_INT16_T, std::nullopt},
      {MPI_UINT16_T, std::nullopt},
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
