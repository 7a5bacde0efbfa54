// MPItrampoline's ABI, as far as jaxlib calls it: an MPI library of any make, loaded at run time, whose functions and
// constants have the prefix MPIABI_. https://github.com/eschnett/MPItrampoline defines it.
//
// Thread-safety: constants and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/numbers/datatype.h"
#include "tutti/tutti.h"

namespace tutti::jax {

// An MPI_Comm, MPI_Datatype, MPI_Op or MPI_Request.
using Handle = std::uintptr_t;

inline constexpr int kSuccess = 0;   // MPI_SUCCESS
inline constexpr int kFailure = 1;   // any error; its text is this thread's (failure.h)
inline constexpr Handle kWorld = 1;  // MPI_COMM_WORLD

// A handle of an operator is the operator's number, and one of a type is the type's number and kComplex, each plus 1:
// the constants that this library lacks are 0.
inline constexpr Handle kComplex = 0x100;

// One element of MPI is `per_element` elements of `type`.
struct Elements {
  tuttiDataType_t type;
  std::size_t per_element;
  std::size_t Count(int count) const { return static_cast<std::size_t>(count) * per_element; }
};

template <typename Number>
consteval Handle HandleOf(Handle kind = 0) {
  return static_cast<Handle>(DataTypeOf<Number>().value()) + kind + 1;
}
constexpr std::optional<Elements> ElementsOf(Handle datatype) {
  const Handle type = (datatype & ~kComplex) - 1;
  if (type >= tuttiNumTypes) return std::nullopt;
  return Elements{static_cast<tuttiDataType_t>(type), (datatype & kComplex) != 0 ? std::size_t{2} : std::size_t{1}};
}
constexpr Handle HandleOf(tuttiRedOp_t op) { return static_cast<Handle>(op) + 1; }
constexpr std::optional<tuttiRedOp_t> OperatorOf(Handle op) {
  if (op == 0 || op > tuttiNumOps) return std::nullopt;
  return static_cast<tuttiRedOp_t>(op - 1);
}

}  // namespace tutti::jax
