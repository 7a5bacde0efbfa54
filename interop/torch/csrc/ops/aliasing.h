// Tensors of one call that share memory. The library accepts an input in its output's memory only where the collective
// says "in place"; c10d's calls, as Gloo implements them, read all inputs before they write an output. So the backend
// copies tensors that share memory in any other way. Each rank copies on its own: one rank's buffer layout changes no
// other rank's call.
//
// Thread-safety: functions may be called from any thread. On a device, copies are enqueued on its current stream.
#pragma once

#include <cstddef>

#include "interop/torch/csrc/ops/tensors.h"

namespace tutti::pytorch {

// A piece of memory; empty if `bytes` is 0.
struct Memory {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

// REQUIRES: CheckTensor.
Memory MemoryOf(const at::Tensor& tensor);
Memory MemoryOf(const Pieces& pieces);
// The address of a rank's block in memory that starts at `begin` and has blocks of the size of `like`.
void* Block(const void* begin, int rank, const at::Tensor& like);
bool Overlap(const Memory& a, const Memory& b);

// The tensor, or a copy of it that is contiguous.
at::Tensor Contiguous(const at::Tensor& tensor);

// The same tensors, with contiguous memory in the place of those that are not contiguous. For outputs: StoreCopies copies
// the results to the tensors.
Tensors ContiguousOutputs(const Tensors& tensors);

// The input of a call that reads `input` and writes `written`. Returns a copy if the two overlap, unless the input is
// at `in_place`, where the call accepts an input in its output's memory (null: nowhere).
at::Tensor ReadApart(const at::Tensor& input, const Memory& written, const void* in_place);

// The tensor that a call writes while it reads `read`: the output, or other memory if the two overlap, unless the
// output is at `in_place`.
class WrittenApart {
 public:
  WrittenApart(const at::Tensor& output, const Memory& read, const void* in_place);

  const at::Tensor& tensor() const { return written_; }
  void Store() const;  // copies what was written to the output

 private:
  const at::Tensor output_;
  at::Tensor written_;
};

// For tensors that are both input and output: the same list, with copies of those that share memory with another, so
// that no write to one precedes the read of another. StoreCopies copies the results back to the tensors, in order.
Tensors CopiesOfAliases(const Tensors& tensors);
void StoreCopies(const Tensors& copies, const Tensors& tensors);

// For calls that run one after the other, read inputs[i] and write outputs[i]: the same inputs, with copies of those
// that an earlier call overwrites.
Tensors InputsOfCalls(const Tensors& inputs, const std::vector<Tensors>& outputs);
// One list for each tensor.
std::vector<Tensors> EachAlone(const Tensors& tensors);

}  // namespace tutti::pytorch
