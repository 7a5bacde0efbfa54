#include "executors/host/strided.h"

namespace tutti {

Strided::Strided(std::span<const StridedDim> dims, std::size_t element_bytes) : run_(element_bytes) {
  bool in_run = true;  // nothing outside the run yet
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim->size == 1) continue;
    const std::size_t stride = dim->stride * element_bytes;
    if (in_run && stride == run_) {
      run_ *= dim->size;
      continue;
    }
    in_run = false;
    auto* const last = outer_ == 0 ? nullptr : &dims_[outer_ - 1];
    if (last != nullptr && stride == last->size * last->stride) {
      last->size *= dim->size;
    } else {
      dims_[outer_++] = {dim->size, stride};
    }
  }
}

StridedCursor::StridedCursor(const Strided& buffer, std::size_t packed) : buffer_(&buffer), in_run_(packed) {
  if (buffer.outer_ == 0) return;
  in_run_ = packed % buffer.run_;
  std::size_t run = packed / buffer.run_;
  for (std::size_t d = 0; d < buffer.outer_; ++d) {
    index_[d] = run % buffer.dims_[d].size;
    run /= buffer.dims_[d].size;
    place_ += index_[d] * buffer.dims_[d].stride;
  }
}

void StridedCursor::Advance(std::size_t bytes) {
  in_run_ += bytes;
  if (in_run_ < buffer_->run_) return;
  in_run_ = 0;
  for (std::size_t d = 0; d < buffer_->outer_; ++d) {
    const auto& dim = buffer_->dims_[d];
    place_ += dim.stride;
    if (++index_[d] < dim.size) return;
    place_ -= dim.size * dim.stride;
    index_[d] = 0;
  }
}

}  // namespace tutti
