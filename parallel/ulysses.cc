#include "tutti/parallel/ulysses.h"

#include <fmt/format.h>

#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

constexpr std::size_t kHeads = 2;  // which dimension they are

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

// An all-to-all of the host takes heads from where they lie, and puts them there.
bool TakesTensors(Compute& compute) { return compute.stream() == nullptr; }

// A row for each position of each sample, with all its heads.
Tensor RowsOf(const Tensor& part) {
  const std::size_t rows = part.shape[0] * part.shape[1];
  return {part.data, {rows, rows == 0 ? 0 : part.count() / rows}, part.dtype};
}

// Heads side by side in each row, to one rank's behind another's, and back.
Buffer Pack(Compute& compute, const Tensor& rows, std::size_t size) {
  const std::size_t columns = rows.shape.back() / size;
  Buffer packed(compute, {size * rows.shape.front(), columns}, rows.dtype);
  for (std::size_t rank = 0; rank < size; ++rank) {
    compute.copy_columns(rows, rank * columns, packed.tensor().chunk(rank, size), 0, columns);
  }
  return packed;
}
void Unpack(Compute& compute, const Tensor& packed, std::size_t size, const Tensor& rows) {
  const std::size_t columns = rows.shape.back() / size;
  for (std::size_t rank = 0; rank < size; ++rank) {
    compute.copy_columns(packed.chunk(rank, size), 0, rows, rank * columns, columns);
  }
}

void Exchange(ProcessGroup& group, const Tensor& from, const Tensor& to, tuttiStream_t stream) {
  const auto size = static_cast<std::size_t>(group.size());
  const std::vector<std::size_t> counts(size, from.count() / size);
  group.all_to_all(from, counts, to, counts, stream);
}

}  // namespace

void scatter_heads_gather_sequence(ProcessGroup& group, Compute& compute, const Tensor& input, const Tensor& output) {
  const auto size = static_cast<std::size_t>(group.size());
  RequireFit(size, output, input);
  if (size == 1) return compute.copy_columns(RowsOf(input), 0, RowsOf(output), 0, RowsOf(input).columns());
  if (TakesTensors(compute)) return group.all_to_all_tensor(input, kHeads, output, 0);
  Exchange(group, Pack(compute, RowsOf(input), size), output, compute.stream());
}

void scatter_sequence_gather_heads(ProcessGroup& group, Compute& compute, const Tensor& input, const Tensor& output) {
  const auto size = static_cast<std::size_t>(group.size());
  RequireFit(size, input, output);
  if (size == 1) return compute.copy_columns(RowsOf(input), 0, RowsOf(output), 0, RowsOf(input).columns());
  if (TakesTensors(compute)) return group.all_to_all_tensor(input, 0, output, kHeads);
  const Buffer arrived(compute, {size * RowsOf(output).rows(), RowsOf(output).columns() / size}, output.dtype);
  Exchange(group, input, arrived, compute.stream());
  Unpack(compute, arrived, size, RowsOf(output));
}

}  // namespace tutti::parallel
