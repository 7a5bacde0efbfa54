// What differs between the PyTorch versions that this room is built against: 1.13, where a backend is a ProcessGroup,
// and 2.x, where it is a Backend inside one.
#pragma once

#include <c10/util/Exception.h>
#include <torch/version.h>

#include <string>

#if TORCH_VERSION_MAJOR >= 2
#define TUTTI_TORCH_2 1
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#define TUTTI_TORCH_2 0
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

namespace tutti::pytorch {

#if TUTTI_TORCH_2
using BackendBase = c10d::Backend;
using BackendError = c10::DistBackendError;  // torch.distributed.DistBackendError
template <typename T>
using Optional = std::optional<T>;
#else
using BackendBase = c10d::ProcessGroup;
using BackendError = c10::Error;  // RuntimeError
template <typename T>
using Optional = c10::optional<T>;
#endif

// PREMUL_SUM's factor where it was given as a tensor of one element; else undefined.
inline at::Tensor FactorTensor(const c10d::NCCLPreMulSumSupplement& supplement) {
#if TUTTI_TORCH_2
  return supplement.tensor_factor;
#else
  return supplement.tensor_factors.empty() ? at::Tensor() : supplement.tensor_factors[0];
#endif
}

inline BackendError MakeBackendError(const std::string& message) {
  return BackendError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, message);
}

}  // namespace tutti::pytorch
