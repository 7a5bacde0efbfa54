// PyTorch's types and operators in the library's words, and what the library has no word for.
//
// Moved data is only counted, so what the library has no type for moves as bytes. Reduced data:
//   - complex numbers are added as pairs of reals;
//   - bool is uint8 of 0 and 1: SUM is MAX (either), PRODUCT is as it is (both), as in PyTorch's NCCL backend;
//   - int16, bitwise operators and products of complex numbers are unknown to the library: every rank gathers what it
//     needs and folds it here (Folded).
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <tutti/tutti.h>

#include <cstddef>

#include "interop/torch/version.h"

namespace tutti::pytorch {

// How many elements of which type an element of a tensor is.
struct Elements {
  tuttiDataType_t type;
  std::size_t each;
};

Elements ToMove(at::ScalarType type);

// How a reduction is carried out.
struct Reduction {
  Elements elements;
  tuttiRedOp_t op;
  bool folded;       // gather and Fold; `elements` are those to move
  at::Tensor scale;  // PREMUL_SUM's factor, one element of the tensor's type; else undefined
};

// Refuses, naming `call`, what has no meaning.
Reduction ToReduce(const char* call, const at::Tensor& tensor, const c10d::ReduceOp& op);

const char* Name(const c10d::ReduceOp& op);

// result[i] = rows[0][i] op rows[1][i] op ...; rows has one row a rank, and is overwritten. REQUIRES: a Folded
// reduction.
void Fold(at::Tensor rows, at::Tensor result, const c10d::ReduceOp& op);

// The operator on a communicator: the library's own, or PREMUL_SUM's for as long as this lives.
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
