// PyTorch's types in the library's. Data that is only moved is only counted, so what the library has no type for moves
// as bytes.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <c10/core/ScalarType.h>
#include <tutti/tutti.h>

#include <cstddef>

#include "interop/torch/csrc/version.h"

namespace tutti::pytorch {

// How many elements of which type an element of a tensor is.
struct Elements {
  tuttiDataType_t type;
  std::size_t each;
};

// As the library can reduce them. None: it does not know the type.
Optional<Elements> ToReduce(c10::ScalarType type);
Elements ToMove(c10::ScalarType type);

}  // namespace tutti::pytorch
