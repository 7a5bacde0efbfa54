// Tensors of the parallel layer from Python's arrays, and back.
//
// Thread-safety: functions need the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/parallel/compute.h>

#include <cstdint>

#include "../array.h"

namespace tutti_python {

// Memory that an array lends for a call, as a tensor. None is a tensor without memory.
class Lent {
 public:
  // Raises as Array::Take does, and InvalidArgumentError for elements that are none of the library's types.
  Lent(nanobind::handle array, const char* what, Access access = Access::kRead);

  operator const tutti::parallel::Tensor&() const { return tensor_; }  // NOLINT: stands for the tensor in every call
  const tutti::parallel::Tensor& operator*() const { return tensor_; }

 private:
  Array array_;
  tutti::parallel::Tensor tensor_;
};

// Whose arrays Python gets.
enum class Framework { numpy, pytorch };

// Where tensors are, and as what Python sees them. device: CUDA's; -1: host memory.
struct Place {
  Framework framework = Framework::numpy;
  int device = -1;
};

// An array over the tensor's memory, which `owner`, if there is one, keeps alive. None for a tensor without memory
// unless it has no elements either.
// strides: in elements, by dimension; null: elements lie one behind the other.
nanobind::object ArrayOver(const tutti::parallel::Tensor& tensor, const Place& place, nanobind::handle owner = {},
                           const std::int64_t* strides = nullptr);
// The same over a buffer, which the array then owns. `keep` lives as long as the buffer: its Compute.
nanobind::object ArrayOf(tutti::parallel::Buffer buffer, const Place& place, nanobind::object keep);

}  // namespace tutti_python
