#include "algorithms/schedule/strided.h"

#include <algorithm>

namespace tutti::schedule {
namespace {

// A buffer as rows of rows, the one with the longest stride first.
struct Rows {
  struct Dim {
    std::ptrdiff_t last, stride;  // of the last row; between rows
  };
  std::array<Dim, Strided::kMostDims> dims{};
  std::size_t count = 0;
  std::ptrdiff_t run = 0;

  explicit Rows(const Strided& buffer) : run(static_cast<std::ptrdiff_t>(buffer.run_bytes())) {
    for (const auto& dim : buffer.outer()) {
      if (dim.stride == 0) continue;  // the same bytes again
      dims[count++] = {static_cast<std::ptrdiff_t>(dim.size.value()) - 1, static_cast<std::ptrdiff_t>(dim.stride)};
    }
    std::sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count),
              [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
  }
};

// Compares a row of one buffer with a row of another.
class Comparison {
 public:
  Comparison(const Rows& first, const Rows& second) : first_(first), second_(second) {}

  // `i`, `j`: how many dimensions of each have an index already; the second row begins `distance` bytes behind the first.
  bool Common(std::size_t i, std::size_t j, std::ptrdiff_t distance) {
    const auto reach = ReachOf(first_, i), other_reach = ReachOf(second_, j);
    if (distance >= reach || -distance >= other_reach) return false;
    const bool more = i < first_.count, other_more = j < second_.count;
    if (!more && !other_more) return true;
    if (--left_ < 0) return true;
    // Rows that are alike are told apart by the difference of their indices.
    const auto stride = std::max(more ? first_.dims[i].stride : 0, other_more ? second_.dims[j].stride : 0);
    const bool ours = more && first_.dims[i].stride == stride, theirs = other_more && second_.dims[j].stride == stride;
    const std::size_t next = i + (ours ? 1 : 0), other_next = j + (theirs ? 1 : 0);
    const auto most = theirs ? second_.dims[j].last : 0, least = ours ? -first_.dims[i].last : 0;
    // Only these differences bring the two rows' spans together.
    const auto from = std::max(least, -((ReachOf(second_, other_next) + distance) / stride)),
               to = std::min(most, (ReachOf(first_, next) - distance) / stride);
    for (auto index = from; index <= to; ++index) {
      if (Common(next, other_next, distance + index * stride)) return true;
    }
    return false;
  }

 private:
  // Bytes from the begin of a row to its end.
  static std::ptrdiff_t ReachOf(const Rows& rows, std::size_t dim) {
    std::ptrdiff_t reach = rows.run;
    for (; dim < rows.count; ++dim) reach += rows.dims[dim].last * rows.dims[dim].stride;
    return reach;
  }

  static constexpr int kMostPairs = 4096;
  const Rows& first_;
  const Rows& second_;
  int left_ = kMostPairs;
};

}  // namespace

bool HaveCommonBytes(const Strided& first, const Strided& second, std::ptrdiff_t distance) {
  const Rows rows(first), others(second);
  return Comparison(rows, others).Common(0, 0, distance);
}

Strided::Strided(std::span<const StridedDim> dims, std::size_t element_bytes) {
  std::size_t run = element_bytes;
  bool in_run = true;  // nothing outside the run yet
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim->size == 1) continue;
    const std::size_t stride = dim->stride * element_bytes;
    if (in_run && stride == run) {
      run *= dim->size;
      continue;
    }
    in_run = false;
    auto* const last = outer_ == 0 ? nullptr : &dims_[outer_ - 1];
    if (last != nullptr && stride == last->size.value() * last->stride) {
      last->size = Divisor(last->size.value() * dim->size);
    } else {
      dims_[outer_++] = {Divisor(dim->size), stride};
    }
  }
  run_ = Divisor(run);
  grain_ = run;
  for (const auto& dim : outer()) grain_ |= dim.stride;
}

StridedCursor::StridedCursor(const Strided& buffer, std::size_t packed) : buffer_(&buffer), in_run_(packed) {
  if (buffer.dense()) return;
  const auto position = buffer.At(packed);
  in_run_ = position.in_run;
  buffer.ForEachIndex(position.run, [&](std::size_t d, std::size_t index) {
    index_[d] = index;
    place_ += index * buffer.dims_[d].stride;
  });
}

void StridedCursor::Advance(std::size_t bytes) {
  in_run_ += bytes;
  if (in_run_ < buffer_->run_bytes()) return;
  in_run_ = 0;
  for (std::size_t d = 0; d < buffer_->outer_; ++d) {
    const auto& dim = buffer_->dims_[d];
    const std::size_t size = dim.size.value();
    place_ += dim.stride;
    if (++index_[d] < size) return;
    place_ -= size * dim.stride;
    index_[d] = 0;
  }
}

}  // namespace tutti::schedule
