// The parallel layer's computation, done in Python: by PyTorch, on whichever device, or on the host with NumPy's matrix
// product.
//
// Thread-safety: as Compute. The functions of Compute take the GIL, so their callers need not have it.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/parallel/host_compute.h>

#include <memory>

#include "tensors.h"

namespace tutti_python {

// A Compute, and what its arrays are.
class PythonCompute {
 public:
  virtual ~PythonCompute() = default;
  virtual tutti::parallel::Compute& compute() = 0;
  virtual Place place() const = 0;
  // An array over memory of compute().allocate(). PyTorch's memory stays as long as its arrays do, also after release().
  virtual nanobind::object ArrayIn(const tutti::parallel::Tensor& tensor) const { return ArrayOver(tensor, place()); }
};

// Calls the methods of `functions`, an object of tutti.parallel's class _TorchCompute, whose names and arguments are
// those of Compute.
std::unique_ptr<PythonCompute> TorchCompute(nanobind::object functions, int device);
// HostCompute, whose matrix product calls matmul(transpose_a, transpose_b, a, b, c, accumulate) with NumPy's arrays.
std::unique_ptr<PythonCompute> NumpyCompute(nanobind::object matmul);

}  // namespace tutti_python
