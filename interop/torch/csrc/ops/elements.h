// Maps PyTorch's types to the library's. Data that is only moved needs no arithmetic, so types that the library lacks
// move as bytes.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <c10/core/ScalarType.h>
#include <tutti/tutti.h>

#include <cstddef>

#include "interop/torch/csrc/version.h"

namespace tutti::pytorch {

// The library's type, and the number of its elements in one element of a tensor.
struct Elements {
  tuttiDataType_t type;
  std::size_t each;
};

// For reductions. None: the library lacks the type.
Optional<Elements> ToReduce(c10::ScalarType type);
Elements ToMove(c10::ScalarType type);

}  // namespace tutti::pytorch
