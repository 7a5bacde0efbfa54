// Maps PyTorch's reductions to the library's, and covers what the library lacks:
//   - complex numbers are added as pairs of reals;
//   - bool is uint8 of 0 and 1: SUM becomes MAX (or), PRODUCT stays (and), as in PyTorch's NCCL backend;
//   - for bitwise operators and products of complex numbers, every rank gathers what it needs and folds it here (Fold).
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <tutti/tutti.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "interop/torch/csrc/ops/elements.h"

namespace tutti::pytorch {

// How a reduction is carried out.
struct Reduction {
  Elements elements;
  tuttiRedOp_t op;
  bool folded;       // gather and Fold; `elements` are those to move
  at::Tensor scale;  // PREMUL_SUM's factor, one element of the tensor's type; else undefined
};

// Throws, naming `call`, if the operator has no meaning for the tensor.
Reduction ToReduce(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op);

const char* Name(const c10d::ReduceOp& op);

// result[i] = rows[0][i] op rows[1][i] op ...; `rows` has one row per rank and is overwritten. REQUIRES: a folded
// reduction.
void Fold(at::Tensor rows, at::Tensor result, const c10d::ReduceOp& op);

// The operator on a communicator: the library's own, or PREMUL_SUM's for the lifetime of this object.
class Operator {
 public:
  Operator(const Reduction& reduction, tuttiComm_t comm);
  ~Operator();
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;
  tuttiRedOp_t get() const { return op_; }

 private:
  const tuttiComm_t comm_;
  tuttiRedOp_t op_;
  const bool made_;
};

}  // namespace tutti::pytorch
