#include "interop/torch/csrc/ops/elements.h"

namespace tutti::pytorch {

Optional<Elements> ToReduce(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Byte:
    case c10::ScalarType::Bool: return Elements{tuttiUint8, 1};
    case c10::ScalarType::Char: return Elements{tuttiInt8, 1};
    case c10::ScalarType::Short: return Elements{tuttiInt16, 1};
    case c10::ScalarType::Int: return Elements{tuttiInt32, 1};
    case c10::ScalarType::Long: return Elements{tuttiInt64, 1};
    case c10::ScalarType::Half: return Elements{tuttiFloat16, 1};
    case c10::ScalarType::BFloat16: return Elements{tuttiBfloat16, 1};
    case c10::ScalarType::Float: return Elements{tuttiFloat32, 1};
    case c10::ScalarType::Double: return Elements{tuttiFloat64, 1};
    case c10::ScalarType::ComplexFloat: return Elements{tuttiFloat32, 2};
    case c10::ScalarType::ComplexDouble: return Elements{tuttiFloat64, 2};
#if TUTTI_TORCH_2 && TORCH_VERSION_MINOR >= 1
    case c10::ScalarType::Float8_e4m3fn: return Elements{tuttiFloat8e4m3, 1};
    case c10::ScalarType::Float8_e5m2: return Elements{tuttiFloat8e5m2, 1};
#endif
#if TUTTI_TORCH_2 && TORCH_VERSION_MINOR >= 3
    case c10::ScalarType::UInt16: return Elements{tuttiUint16, 1};
    case c10::ScalarType::UInt32: return Elements{tuttiUint32, 1};
    case c10::ScalarType::UInt64: return Elements{tuttiUint64, 1};
#endif
    default: return {};
  }
}

Elements ToMove(c10::ScalarType type) {
  if (const auto elements = ToReduce(type)) return *elements;
  return {tuttiUint8, c10::elementSize(type)};
}

}  // namespace tutti::pytorch
