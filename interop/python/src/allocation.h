// Outputs that a call allocates where the caller gave none.
//
// Thread-safety: functions need the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <vector>

#include "array.h"

namespace tutti_python {

using Shape = std::vector<Py_ssize_t>;

// A new array of `shape` with the elements of `like`, whose memory `array` describes: of the same package (NumPy, PyTorch
// or CuPy), on the same device; for other objects in host memory a memoryview.
nanobind::object NewLike(nanobind::handle like, const Array& array, const Shape& shape);

// The shape of `like`.
Shape SameShape(const Array& like);
// As many copies of it as `ranks`, one after the other along the first dimension.
Shape JoinedShape(const Array& like, int ranks);
// One of `ranks` equal parts along the first dimension. Raises InvalidArgumentError if there are none.
Shape PartShape(const Array& like, int ranks);

}  // namespace tutti_python
