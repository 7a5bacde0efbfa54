// The tensors of the layer's functions: memory with a shape. The application owns the memory, on the host or on a CUDA
// device; a Tensor is a value that may be copied freely and owns nothing.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::parallel {

using Shape = std::vector<std::size_t>;

// "[2, 3]".
TUTTI_API std::string describe(const Shape& shape);
// Bytes of an element. Throws Error for a value that is no type.
TUTTI_API std::size_t size_of(tuttiDataType_t dtype);
TUTTI_API const char* name_of(tuttiDataType_t dtype);

// Elements lie one behind the other, the last dimension fastest.
struct TUTTI_API Tensor {
  void* data = nullptr;
  Shape shape;
  tuttiDataType_t dtype = tuttiFloat32;

  Tensor() = default;
  Tensor(void* data, Shape shape, tuttiDataType_t dtype) : data(data), shape(std::move(shape)), dtype(dtype) {}
  Tensor(float* data, Shape shape) : data(data), shape(std::move(shape)) {}

  std::size_t count() const;
  std::size_t bytes() const { return count() * size_of(dtype); }
  // As a matrix: columns are the last dimension, rows all others together.
  std::size_t columns() const { return shape.empty() ? 1 : shape.back(); }
  std::size_t rows() const { return columns() == 0 ? 0 : count() / columns(); }
  // Part `part` of `parts` equal ones along the first dimension. REQUIRES: it divides.
  Tensor chunk(std::size_t part, std::size_t parts) const;
  // Throws Error unless dtype is tuttiFloat32. The numbers may be on a device.
  float* floats() const;
};

// Throws Error (tuttiInvalidArgument) naming `what` and both values unless they are equal.
TUTTI_API void require_shape(const char* what, const Tensor& tensor, const Shape& expected);
TUTTI_API void require_type(const char* what, const Tensor& tensor, tuttiDataType_t expected);
TUTTI_API void require_equal(const char* what, std::size_t value, const char* of_what, std::size_t expected);
// ... unless `divisor` divides `value`.
TUTTI_API void require_divisible(const char* what, std::size_t value, const char* by_what, std::size_t divisor);
// ... if the two share a byte.
TUTTI_API void require_apart(const char* what, const Tensor& tensor, const char* of_what, const Tensor& other);

}  // namespace tutti::parallel
