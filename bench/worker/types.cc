#include "bench/worker/types.h"

#include <algorithm>
#include <utility>

namespace tutti::bench {

std::optional<tuttiDataType_t> TypeNamed(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, tuttiDataType_t>, 10> kSynonyms = {{{"char", tuttiInt8},
                                                                                       {"int", tuttiInt32},
                                                                                       {"float16", tuttiFloat16},
                                                                                       {"f16", tuttiFloat16},
                                                                                       {"float32", tuttiFloat32},
                                                                                       {"float64", tuttiFloat64},
                                                                                       {"bf16", tuttiBfloat16},
                                                                                       {"fp8_e4m3", tuttiFloat8e4m3},
                                                                                       {"fp8_e5m2", tuttiFloat8e5m2},
                                                                                       {"f32", tuttiFloat32}}};
  const auto found = std::find(kTypeNames.begin(), kTypeNames.end(), name);
  if (found != kTypeNames.end()) return static_cast<tuttiDataType_t>(found - kTypeNames.begin());
  for (const auto& [synonym, type] : kSynonyms) {
    if (synonym == name) return type;
  }
  return std::nullopt;
}

std::optional<tuttiRedOp_t> OpNamed(std::string_view name) {
  const auto found = std::find(kOpNames.begin(), kOpNames.end(), name);
  if (found == kOpNames.end()) return std::nullopt;
  return static_cast<tuttiRedOp_t>(found - kOpNames.begin());
}

}  // namespace tutti::bench
