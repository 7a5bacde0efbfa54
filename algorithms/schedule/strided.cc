#include "algorithms/schedule/strided.h"

namespace tutti::schedule {

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
