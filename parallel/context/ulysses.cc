#include "tutti/parallel/ulysses.h"

#include <fmt/format.h>

#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

constexpr std::size_t kHeads = 2;  // their dimension

// Throws unless `whole` [s, batch, heads / size, ..] and `part` [s / size, batch, heads, ..] are the same data.
void RequireFit(std::size_t size, const Tensor& whole, const Tensor& part) {
  if (part.shape.size() <= kHeads) {
    throw Error(tuttiInvalidArgument,
                fmt::format("the part of the sequence has shape {}, which has {} dimensions, but {} are needed: "
                            "[sequence, batch, heads, ..]",
                            describe(part.shape), part.shape.size(), kHeads + 1));
  }
  require_divisible("the number of heads", part.shape[kHeads], "the Ulysses group's size", size);
  Shape expected = part.shape;
  expected.front() *= size;
  expected[kHeads] /= size;
  require_shape("the whole sequence", whole, expected);
  require_type("the whole sequence", whole, part.dtype);
  if (part.dtype != tuttiBfloat16) require_type("the part of the sequence", part, tuttiFloat32);  // what Compute copies
}

// A row for each position of each sample, with all its heads.
Tensor RowsOf(const Tensor& part) {
  const std::size_t rows = part.shape[0] * part.shape[1];
  return {part.data, {rows, rows == 0 ? 0 : part.count() / rows}, part.dtype};
}

}  // namespace

void scatter_heads_gather_sequence(ProcessGroup& group, Compute& compute, const Tensor& input, const Tensor& output) {
  const auto size = static_cast<std::size_t>(group.size());
  RequireFit(size, output, input);
  if (size == 1) return compute.copy_columns(RowsOf(input), 0, RowsOf(output), 0, RowsOf(input).columns());
  group.all_to_all_tensor(input, kHeads, output, 0, compute.stream());
}

void scatter_sequence_gather_heads(ProcessGroup& group, Compute& compute, const Tensor& input, const Tensor& output) {
  const auto size = static_cast<std::size_t>(group.size());
  RequireFit(size, input, output);
  if (size == 1) return compute.copy_columns(RowsOf(input), 0, RowsOf(output), 0, RowsOf(input).columns());
  group.all_to_all_tensor(input, 0, output, kHeads, compute.stream());
}

}  // namespace tutti::parallel
