#include "tutti/parallel/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <functional>
#include <numeric>

#include "base/numbers/datatype.h"
#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

tuttiDataType_t Checked(tuttiDataType_t dtype) {
  if (IsDataType(dtype)) return dtype;
  throw Error(tuttiInvalidArgument, fmt::format("{} is not a data type: valid values are 0 .. {}",
                                                static_cast<int>(dtype), static_cast<int>(tuttiNumTypes) - 1));
}

}  // namespace

std::string describe(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::size_t size_of(tuttiDataType_t dtype) { return SizeOf(Checked(dtype)); }
const char* name_of(tuttiDataType_t dtype) { return NameOf(Checked(dtype)).data(); }

std::size_t Tensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

float* Tensor::floats() const {
  require_type("a tensor of plain numbers", *this, tuttiFloat32);
  return static_cast<float*>(data);
}

Tensor Tensor::chunk(std::size_t part, std::size_t parts) const {
  Tensor piece = *this;
  piece.shape.front() /= parts;
  piece.data = static_cast<std::byte*>(data) + part * piece.bytes();
  return piece;
}

void require_shape(const char* what, const Tensor& tensor, const Shape& expected) {
  if (tensor.shape == expected) return;
  throw Error(tuttiInvalidArgument,
              fmt::format("{} has shape {}, but {} is expected", what, describe(tensor.shape), describe(expected)));
}

void require_type(const char* what, const Tensor& tensor, tuttiDataType_t expected) {
  if (tensor.dtype == expected) return;
  throw Error(tuttiInvalidArgument,
              fmt::format("{} is {}, but {} is expected", what, name_of(tensor.dtype), name_of(expected)));
}

void require_equal(const char* what, std::size_t value, const char* of_what, std::size_t expected) {
  if (value == expected) return;
  throw Error(tuttiInvalidArgument, fmt::format("{} is {}, but {} is {}", what, value, of_what, expected));
}

void require_divisible(const char* what, std::size_t value, const char* by_what, std::size_t divisor) {
  if (divisor != 0 && value % divisor == 0) return;
  throw Error(tuttiInvalidArgument, fmt::format("{} ({}) is not divisible by {} ({})", what, value, by_what, divisor));
}

void require_apart(const char* what, const Tensor& tensor, const char* of_what, const Tensor& other) {
  const auto first = reinterpret_cast<std::uintptr_t>(tensor.data),
             second = reinterpret_cast<std::uintptr_t>(other.data);
  if (first + tensor.bytes() <= second || second + other.bytes() <= first) return;
  throw Error(tuttiInvalidArgument,
              fmt::format("{} has {} bytes at {}, and {} has {} bytes at {}: they overlap, but need separate memory",
                          what, tensor.bytes(), tensor.data, of_what, other.bytes(), other.data));
}

}  // namespace tutti::parallel
