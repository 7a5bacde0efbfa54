#include "interop/torch/csrc/ops/aliasing.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace tutti::pytorch {
namespace {

at::Tensor CopyOf(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return tensor.detach().clone();
}

}  // namespace

Memory MemoryOf(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

Memory MemoryOf(const Pieces& pieces) { return {static_cast<const std::byte*>(pieces.data()), pieces.bytes()}; }

void* Block(const void* begin, int rank, const at::Tensor& like) {
  return static_cast<std::byte*>(const_cast<void*>(begin)) + static_cast<std::size_t>(rank) * like.nbytes();
}

bool Overlap(const Memory& a, const Memory& b) {
  return a.bytes != 0 && b.bytes != 0 && a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

at::Tensor Contiguous(const at::Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  const at::NoGradGuard no_grad;
  return tensor.contiguous();
}

Tensors ContiguousOutputs(const Tensors& tensors) {
  auto outputs = tensors;
  for (auto& output : outputs) {
    if (!output.is_contiguous()) output = at::empty(output.sizes(), output.options().requires_grad(false));
  }
  return outputs;
}

at::Tensor ReadApart(const at::Tensor& input, const Memory& written, const void* in_place) {
  return Overlap(MemoryOf(input), written) && input.data_ptr() != in_place ? CopyOf(input) : input;
}

WrittenApart::WrittenApart(const at::Tensor& output, const Memory& read, const void* in_place)
    : output_(output), written_(output) {
  if (Overlap(MemoryOf(output), read) && output.data_ptr() != in_place) {
    written_ = at::empty_like(output, output.options().requires_grad(false));
  }
}

void WrittenApart::Store() const {
  if (written_.is_same(output_)) return;
  const at::NoGradGuard no_grad;
  output_.copy_(written_, true);
}

Tensors CopiesOfAliases(const Tensors& tensors) {
  auto copies = tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!Overlap(MemoryOf(tensors[i]), MemoryOf(tensors[j]))) continue;
      for (const auto each : {i, j}) {
        if (copies[each].is_same(tensors[each])) copies[each] = CopyOf(tensors[each]);
      }
    }
  }
  return copies;
}

void StoreCopies(const Tensors& copies, const Tensors& tensors) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!copies[i].is_same(tensors[i])) tensors[i].copy_(copies[i], true);
  }
}

Tensors InputsOfCalls(const Tensors& inputs, const std::vector<Tensors>& outputs) {
  auto copies = inputs;
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    for (std::size_t j = 0; j < i && copies[i].is_same(inputs[i]); ++j) {
      for (const auto& output : outputs[j]) {
        if (!Overlap(MemoryOf(inputs[i]), MemoryOf(output))) continue;
        copies[i] = CopyOf(inputs[i]);
        break;
      }
    }
  }
  return copies;
}

std::vector<Tensors> EachAlone(const Tensors& tensors) {
  std::vector<Tensors> lists;
  for (const auto& tensor : tensors) lists.push_back({tensor});
  return lists;
}

}  // namespace tutti::pytorch
