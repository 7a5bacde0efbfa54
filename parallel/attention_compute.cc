#include "tutti/parallel/attention_compute.h"

namespace tutti::parallel {

HeadRows::HeadRows(const Tensor& tensor)
    : data(tensor.floats()),
      positions(tensor.shape.at(0)),
      lanes(tensor.shape.at(1) * tensor.shape.at(2)),
      width(tensor.shape.at(3)),
      stride(width) {}

HeadRows::HeadRows(const Tensor& tensor, std::size_t part)
    : data(tensor.floats() + part * tensor.shape.at(4)),
      positions(tensor.shape.at(0)),
      lanes(tensor.shape.at(1) * tensor.shape.at(2)),
      width(tensor.shape.at(4)),
      stride(tensor.shape.at(3) * width) {}

HeadRows HeadRows::range(std::size_t first, std::size_t count) const {
  HeadRows some = *this;
  some.data += first * lanes * stride;
  some.positions = count;
  return some;
}

}  // namespace tutti::parallel
