#include "allocation.h"

#include <string>
#include <string_view>

#include "failure.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

// "numpy" of numpy.ndarray.
std::string PackageOf(nb::handle object) {
  const nb::object module = nb::getattr(object.type(), "__module__", nb::str(""));
  const std::string name = nb::str(module).c_str();
  return name.substr(0, name.find('.'));
}

nb::tuple TupleOf(const Shape& shape) {
  const nb::object tuple = nb::steal<nb::object>(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  if (!tuple.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    PyObject* const number = PyLong_FromSsize_t(shape[i]);
    if (number == nullptr || PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), number) != 0)
      throw nb::python_error();
  }
  return nb::borrow<nb::tuple>(tuple);
}

// The buffer protocol's letter, which memoryview.cast takes.
const char* FormatOf(const Element& element) {
  switch (element.kind) {
    case Kind::kSigned: return element.bytes == 1 ? "b" : element.bytes == 2 ? "h" : element.bytes == 4 ? "i" : "q";
    case Kind::kUnsigned: return element.bytes == 1 ? "B" : element.bytes == 2 ? "H" : element.bytes == 4 ? "I" : "Q";
    case Kind::kFloat: return element.bytes == 2 ? "e" : element.bytes == 4 ? "f" : element.bytes == 8 ? "d" : nullptr;
    case Kind::kBool: return "?";
    default: return nullptr;
  }
}

nb::object NewMemoryview(const Array& array, const Shape& shape) {
  const char* const format = FormatOf(array.element());
  if (format == nullptr) {
    Fail(tuttiInvalidArgument, "there is no memoryview of " + NameOf(array.element()) + ": pass recv, the output");
  }
  Py_ssize_t bytes = static_cast<Py_ssize_t>(array.element().bytes);
  for (const auto extent : shape) bytes *= extent;
  const nb::object memory = nb::handle(reinterpret_cast<PyObject*>(&PyByteArray_Type))(bytes);  // zeros
  const nb::object view = nb::steal<nb::object>(PyMemoryView_FromObject(memory.ptr()));
  if (!view.is_valid()) throw nb::python_error();
  // memoryview.cast takes no shape with a zero.
  if (bytes == 0 || shape.size() == 1) return view.attr("cast")(format);
  return view.attr("cast")("B").attr("cast")(format, TupleOf(shape));
}

}  // namespace

nb::object NewLike(nb::handle like, const Array& array, const Shape& shape) {
  // The usual case without a look at modules. (A subclass of numpy.ndarray may want more arguments.)
  if (IsNumpyArray(like))
    return like.type()(TupleOf(shape), like.attr("dtype"));
  const auto package = PackageOf(like);
  if (package == "torch") {
    nb::dict named;
    named["dtype"] = like.attr("dtype");
    named["device"] = like.attr("device");
    return nb::module_::import_("torch").attr("empty")(TupleOf(shape), **named);
  }
  const bool cupy = package == "cupy";
  if (cupy || (!array.on_device() && nb::hasattr(like, "__array_interface__") && nb::hasattr(like, "dtype"))) {
    return nb::module_::import_(cupy ? "cupy" : "numpy").attr("empty")(TupleOf(shape), like.attr("dtype"));
  }
  if (array.on_device()) {
    Fail(tuttiInvalidArgument,
         "an output on a device is allocated for arrays of PyTorch and CuPy: pass recv, the output");
  }
  return NewMemoryview(array, shape);
}

Shape SameShape(const Array& like) { return {like.shape().begin(), like.shape().end()}; }

Shape JoinedShape(const Array& like, int ranks) {
  auto shape = SameShape(like);
  if (shape.empty()) return {ranks};
  shape.front() *= ranks;
  return shape;
}

Shape PartShape(const Array& like, int ranks) {
  auto shape = SameShape(like);
  if (shape.empty() || shape.front() % ranks != 0) {
    const auto size =
        shape.empty() ? "send has no dimension" : "send's first dimension is " + std::to_string(shape.front());
    Fail(tuttiInvalidArgument,
         size + ", which cannot be cut into " + std::to_string(ranks) + " equal parts: pass recv, the output");
  }
  shape.front() /= ranks;
  return shape;
}

}  // namespace tutti_python
