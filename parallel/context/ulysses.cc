#include "tutti/parallel/ulysses.h"

#include <fmt/format.h>

#include "tutti/parallel/error.h"
#include "tutti/parallel/index_range.h"

namespace tutti::parallel {
namespace {

constexpr std::size_t kHeads = 2;  // their dimension

std::size_t RowsOfPart(const Tensor& whole, std::size_t rank, std::size_t size) {
  return part_of(whole.shape.front(), rank, size).size();
}

// Throws unless `whole` [s, batch, heads / size, ..] and `part` [rank's part of s, batch, heads, ..] are the same data.
void RequireFit(const ProcessGroup& group, const Tensor& whole, const Tensor& part) {
  for (const auto* const tensor : {&whole, &part}) {
    if (tensor->shape.size() > kHeads) continue;
    throw Error(tuttiInvalidArgument,
                fmt::format("{} of the sequence has shape {}, which has {} dimensions, but {} are needed: "
                            "[sequence, batch, heads, ..]",
                            tensor == &part ? "the part" : "the whole", describe(tensor->shape), tensor->shape.size(),
                            kHeads + 1));
  }
  const std::size_t size = group.ranks().size();
  require_divisible("the number of heads", part.shape[kHeads], "the Ulysses group's size", size);
  Shape expected = whole.shape;
  expected.front() = RowsOfPart(whole, static_cast<std::size_t>(group.rank()), size);
  expected[kHeads] *= size;
  require_shape("the part of the sequence", part, expected);
  require_type("the whole sequence", whole, part.dtype);
  if (part.dtype != tuttiBfloat16) require_type("the part of the sequence", part, tuttiFloat32);  // what Compute copies
}

// A row for each position of each sample, with all its heads.
Tensor RowsOf(const Tensor& part) {
  const std::size_t rows = part.shape[0] * part.shape[1];
  return {part.data, {rows, rows == 0 ? 0 : part.count() / rows}, part.dtype};
}

// The exchange of parts that are not equally long. A buffer has this rank's part, packed by the ranks that compute its
// heads.
class Uneven {
 public:
  Uneven(ProcessGroup& group, Compute& compute, const Tensor& whole, const Tensor& part)
      : group_(group),
        compute_(compute),
        size_(group.ranks().size()),
        whole_(whole),
        rows_(RowsOf(part)),
        packed_(compute, {size_ * rows_.rows(), rows_.columns() / size_}, part.dtype),
        by_heads_(size_, part.count() / size_) {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      by_parts_.push_back(RowsOfPart(whole, rank, size_) * (whole.count() / whole.shape.front()));
    }
  }

  void scatter_heads() {
    for (std::size_t rank = 0; rank < size_; ++rank) {
      compute_.copy_columns(rows_, rank * columns(), packed_.tensor().chunk(rank, size_), 0, columns());
    }
    group_.all_to_all(packed_, by_heads_, whole_, by_parts_, compute_.stream());
  }
  void gather_heads() {
    group_.all_to_all(whole_, by_parts_, packed_, by_heads_, compute_.stream());
    for (std::size_t rank = 0; rank < size_; ++rank) {
      compute_.copy_columns(packed_.tensor().chunk(rank, size_), 0, rows_, rank * columns(), columns());
    }
  }

 private:
  std::size_t columns() const { return packed_.tensor().columns(); }

  ProcessGroup& group_;
  Compute& compute_;
  std::size_t size_;
  Tensor whole_, rows_;
  Buffer packed_;
  std::vector<std::size_t> by_heads_, by_parts_;  // elements, by rank: of its heads here, and of its part in `whole`
};

bool IsEven(const ProcessGroup& group, const Tensor& whole) { return whole.shape.front() % group.ranks().size() == 0; }

}  // namespace

void scatter_heads_gather_sequence(ProcessGroup& group, Compute& compute, const Tensor& input, const Tensor& output) {
  RequireFit(group, output, input);
  if (group.size() == 1) return compute.copy_columns(RowsOf(input), 0, RowsOf(output), 0, RowsOf(input).columns());
  if (!IsEven(group, output)) return Uneven(group, compute, output, input).scatter_heads();
  group.all_to_all_tensor(input, kHeads, output, 0, compute.stream());
}

void scatter_sequence_gather_heads(ProcessGroup& group, Compute& compute, const Tensor& input, const Tensor& output) {
  RequireFit(group, input, output);
  if (group.size() == 1) return compute.copy_columns(RowsOf(input), 0, RowsOf(output), 0, RowsOf(input).columns());
  if (!IsEven(group, input)) return Uneven(group, compute, input, output).gather_heads();
  group.all_to_all_tensor(input, 0, output, kHeads, compute.stream());
}

}  // namespace tutti::parallel
