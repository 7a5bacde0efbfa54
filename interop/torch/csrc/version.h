// The differences between the supported PyTorch versions: 1.13, where a backend is a ProcessGroup, and 2.x, where it is
// a Backend inside one.
#pragma once

#include <c10/util/Optional.h>
#include <torch/version.h>

#if TORCH_VERSION_MAJOR >= 2
#define TUTTI_TORCH_2 1
#include <optional>
#else
#define TUTTI_TORCH_2 0
#endif

namespace tutti::pytorch {

#if TUTTI_TORCH_2
template <typename T>
using Optional = std::optional<T>;
#else
template <typename T>
using Optional = c10::optional<T>;
#endif

}  // namespace tutti::pytorch
