// Tensors of one call that share memory. The library takes an input in its output's memory only where the collective
// says "in place"; c10d's calls, as Gloo carries them out, read all inputs before they write an output. So whatever
// else shares memory is copied here, each rank for itself: how a rank's buffers lie changes no other rank's call.
//
// Thread-safety: functions may be called from any thread. On a device, copies are enqueued on its current stream.
#pragma once

#include <cstddef>

#include "interop/torch/tensors.h"

namespace tutti::pytorch {

// A piece of memory; nothing if `bytes` is 0.
struct Memory {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

// REQUIRES: CheckTensor.
Memory MemoryOf(const at::Tensor& tensor);
Memory MemoryOf(const Pieces& pieces);
// The place of a rank's block in a piece of memory, each as large as `like`.
void* Block(const void* begin, int rank, const at::Tensor& like);
bool Overlap(const Memory& a, const Memory& b);

// The tensor, or a copy of it that is contiguous.
at::Tensor Contiguous(const at::Tensor& tensor);

// Of a call that reads `input` and writes `written`: the input, or a copy of it if they overlap and it is not at
// `in_place`, where the call takes it (null: nowhere).
at::Tensor ReadApart(const at::Tensor& input, const Memory& written, const void* in_place);

// What a call writes while it reads `read`: the output, or other memory if they overlap and the output is not at
// `in_place`.
class WrittenApart {
 public:
  WrittenApart(const at::Tensor& output, const Memory& read, const void* in_place);

  const at::Tensor& tensor() const { return written_; }
  void Store() const;  // in the output

 private:
  const at::Tensor output_;
  at::Tensor written_;
};

// Of a list of tensors that are each input and output: those that share memory with another are copies, so that none is
// read after another was written. StoreCopies gives each tensor what its copy has become, in their order.
Tensors CopiesOfAliases(const Tensors& tensors);
void StoreCopies(const Tensors& copies, const Tensors& tensors);

// Of calls one after the other, which read inputs[i] and write outputs[i]: inputs that a call before overwrites are
// copies.
Tensors InputsOfCalls(const Tensors& inputs, const std::vector<Tensors>& outputs);
// A list for each.
std::vector<Tensors> EachAlone(const Tensors& tensors);

}  // namespace tutti::pytorch
