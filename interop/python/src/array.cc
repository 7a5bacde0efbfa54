#include "array.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "failure.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

[[noreturn]] void FailArgument(const char* what, const std::string& problem) {
  Fail(tuttiInvalidArgument, std::string(what) + " " + problem);
}

constexpr auto kNotContiguous =
    "is not contiguous in C order: pass a contiguous copy of it, e.g. numpy.ascontiguousarray(...)";
constexpr auto kReadOnly = "is read-only, and the call writes to it";

bool IsContiguous(std::span<const Py_ssize_t> shape, const std::vector<Py_ssize_t>& strides, Py_ssize_t unit) {
  if (std::ranges::find(shape, 0) != shape.end()) return true;  // whatever its strides: PyTorch has zeros, for example
  Py_ssize_t expected = unit;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

// Raises if the object lends memory by the buffer protocol, but not as it must be. Otherwise it lends none.
void DiagnoseBuffer(nb::handle object, const char* what) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_FULL_RO) != 0) {
    PyErr_Clear();
    return;
  }
  const bool contiguous = PyBuffer_IsContiguous(&view, 'C') != 0;
  PyBuffer_Release(&view);
  FailArgument(what, contiguous ? kReadOnly : kNotContiguous);
}

constexpr auto kMasked = "is a masked array: pass its data, e.g. after filled()";

// A property that an object has of values which are yet to be computed from its memory.
struct Pending {
  PyObject* asked;  // a method that says whether it has the property
  const char* problem;
};

// Raises if the object's memory holds other values than the object has: a sum over them would be a wrong number. The doors
// below do not tell. REQUIRES: it is asked before any door is tried.
void RequireOwnValues(nb::handle object, const char* what) {
  if (IsNumpyArray(object)) return;
  static PyObject* const mask = PyUnicode_InternFromString("_mask");
  if (nb::hasattr(object, mask)) FailArgument(what, kMasked);
  // PyTorch's tensors. Its __dlpack__ refuses only some of them.
  static const std::array<Pending, 2> kPending = {
      {{PyUnicode_InternFromString("is_neg"), "is a tensor whose negation is pending: pass its resolve_neg()"},
       {PyUnicode_InternFromString("is_conj"), "is a tensor whose conjugation is pending: pass its resolve_conj()"}}};
  for (const auto& [asked, problem] : kPending) {
    if (!nb::hasattr(object, asked)) continue;
    const nb::object answer = object.attr(nb::handle(asked))();
    if (answer.ptr() == Py_True) FailArgument(what, problem);
  }
}

std::vector<Py_ssize_t> NumbersOf(nb::handle sequence) {
  std::vector<Py_ssize_t> numbers;
  for (const nb::handle one : nb::iter(sequence)) numbers.push_back(nb::cast<Py_ssize_t>(one));
  return numbers;
}

// NumPy's array interface, and CUDA's, which has the same fields.
struct Interface {
  void* data = nullptr;
  bool read_only = false;
  bool masked = false;  // only some of the elements are valid
  std::vector<Py_ssize_t> shape;
  std::optional<std::vector<Py_ssize_t>> strides;
  std::string type;  // for messages
  std::optional<Element> element;
};

// Empty: a field is missing or of a wrong type.
std::optional<Interface> ReadInterface(nb::handle object, const nb::dict& fields) {
  try {
    Interface interface;
    const auto data = nb::cast<nb::tuple>(fields["data"]);  // the address, and whether it is read-only
    if (data.size() != 2) return std::nullopt;
    interface.data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0]));
    interface.read_only = nb::cast<bool>(data[1]);
    interface.masked = fields.contains("mask") && !fields["mask"].is_none();
    interface.shape = NumbersOf(fields["shape"]);
    if (std::ranges::any_of(interface.shape, [](Py_ssize_t extent) { return extent < 0; })) return std::nullopt;
    if (fields.contains("strides") && !fields["strides"].is_none()) {
      interface.strides = NumbersOf(fields["strides"]);
      if (interface.strides->size() != interface.shape.size()) return std::nullopt;
    }
    const auto typestr = nb::cast<nb::str>(fields["typestr"]);
    interface.type = typestr.c_str();
    // The name comes first, because the type string of a float8 may say only that it is a float of one byte.
    const nb::object dtype = nb::getattr(object, "dtype", nb::none());
    if (nb::hasattr(dtype, "itemsize") && nb::hasattr(dtype, "name")) {
      const auto name = nb::cast<nb::str>(dtype.attr("name"));
      interface.element = ElementOfName(name.c_str(), nb::cast<std::size_t>(dtype.attr("itemsize")));
      if (!interface.element) interface.element = ElementOfTypestr(interface.type);
      interface.type = name.c_str();
    } else {
      interface.element = ElementOfTypestr(interface.type);
    }
    return interface;
  } catch (const std::exception&) {  // nanobind's, and Python's
    return std::nullopt;
  }
}

// What __dlpack__ returns. Not nanobind's own import: where __dlpack__ refuses, e.g. for PyTorch's lazily conjugated
// numbers, that takes the memory another way.
nb::object DlpackCapsule(nb::handle object, const char* what) {
  const auto lend = object.attr("__dlpack__");
  try {
    try {
      return lend(nb::arg("max_version") = nb::make_tuple(nb::dlpack::major_version, nb::dlpack::minor_version));
    } catch (nb::python_error& error) {  // older than DLPack 1.0
      if (!error.matches(PyExc_TypeError)) throw;
      return lend();
    }
  } catch (nb::python_error& error) {
    FailArgument(what, std::string("does not lend its memory by DLPack: ") + nb::str(error.value()).c_str());
  }
}

}  // namespace

bool IsNumpyArray(nb::handle object) {
  static PyTypeObject* numpys = nullptr;  // found when the first of its objects comes, and kept: NumPy cannot be unloaded
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (numpys != nullptr) return type == numpys;
  static PyObject* const name = PyUnicode_InternFromString("numpy");
  const nb::object numpy = nb::steal(PyImport_GetModule(name));
  if (!numpy.is_valid() || !nb::hasattr(numpy, "ndarray")) return false;  // not imported, or only half
  numpys = reinterpret_cast<PyTypeObject*>(nb::object(numpy.attr("ndarray")).release().ptr());
  return type == numpys;
}

void Array::Take(nb::handle object, const char* what, Access access) {
  RequireOwnValues(object, what);
  if (TakeBuffer(object, what, access) || TakeArrayInterface(object, "__array_interface__", what, access) ||
      TakeDlpack(object, what, access) || TakeArrayInterface(object, "__cuda_array_interface__", what, access)) {
    held_ = true;
    return;
  }
  FailType(what, object,
           ", which lends no memory: pass an array (NumPy, PyTorch, CuPy, array.array, bytearray, memoryview), or use "
           "the calls for objects, e.g. broadcast_object");
}

void Array::Release() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
  tensor_.reset();
  owner_.reset();
  held_ = false;
}

void Array::SetShape(std::vector<Py_ssize_t> extents) {
  extents_ = std::move(extents);
  shape_ = extents_;
  count_ = 1;
  for (const auto extent : extents_) count_ *= static_cast<std::size_t>(extent);
}

bool Array::TakeBuffer(nb::handle object, const char* what, Access access) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  const int flags = PyBUF_ND | PyBUF_FORMAT | (access == Access::kWrite ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
    PyErr_Clear();
    view_.obj = nullptr;
    DiagnoseBuffer(object, what);
    return false;
  }
  const auto element = ElementOfFormat(view_.format, static_cast<std::size_t>(view_.itemsize));
  if (!element) {
    const std::string format = view_.format;
    Release();
    FailArgument(what, "has elements of format '" + format +
                           "': numbers in the machine's byte order are taken, but no objects, structures or text");
  }
  data_ = view_.buf;
  element_ = *element;
  count_ = static_cast<std::size_t>(view_.len) / element_.bytes;
  shape_ = {view_.shape, static_cast<std::size_t>(view_.ndim)};
  return true;
}

bool Array::TakeArrayInterface(nb::handle object, const char* attribute, const char* what, Access access) {
  const nb::object dictionary = nb::getattr(object, attribute, nb::none());
  if (!nb::isinstance<nb::dict>(dictionary)) return false;
  auto interface = ReadInterface(object, nb::borrow<nb::dict>(dictionary));
  if (!interface) FailArgument(what, std::string("has an ") + attribute + " that is not as NumPy defines it");
  if (interface->masked) FailArgument(what, kMasked);
  if (!interface->element) FailArgument(what, "has elements of type " + interface->type + ", which is unknown");
  if (access == Access::kWrite && interface->read_only) FailArgument(what, kReadOnly);
  SetShape(std::move(interface->shape));
  if (interface->strides &&
      !IsContiguous(shape_, *interface->strides, static_cast<Py_ssize_t>(interface->element->bytes))) {
    FailArgument(what, kNotContiguous);
  }
  element_ = *interface->element;
  data_ = interface->data;
  on_device_ = std::strcmp(attribute, "__cuda_array_interface__") == 0;
  owner_ = nb::borrow<nb::object>(object);
  return true;
}

template <typename Tensor>
bool Array::TakeTensor(const Tensor& tensor, const char* what) {
  const auto type = tensor.dtype();
  const auto element = ElementOfDlpack(type.code, type.bits, type.lanes);
  if (!element) {
    FailArgument(what, "has elements of DLPack's type code " + std::to_string(type.code) + " with " +
                           std::to_string(type.bits) + " bits, which are not taken");
  }
  const int device = tensor.device_type();
  if (device != nb::device::cpu::value && device != nb::device::cuda_host::value && device != nb::device::cuda::value &&
      device != nb::device::cuda_managed::value) {
    FailArgument(what, "lies on a device of DLPack's type " + std::to_string(device) +
                           ": host memory and CUDA devices are taken");
  }
  std::vector<Py_ssize_t> extents, strides;
  for (std::size_t i = 0; i < tensor.ndim(); ++i) {
    extents.push_back(static_cast<Py_ssize_t>(tensor.shape(i)));
    strides.push_back(static_cast<Py_ssize_t>(tensor.stride(i)));
  }
  SetShape(std::move(extents));
  if (!IsContiguous(shape_, strides, 1)) FailArgument(what, kNotContiguous);
  element_ = *element;
  data_ = const_cast<void*>(static_cast<const void*>(tensor.data()));
  on_device_ = device == nb::device::cuda::value || device == nb::device::cuda_managed::value;
  return true;
}

bool Array::TakeDlpack(nb::handle object, const char* what, Access access) {
  if (!nb::hasattr(object, "__dlpack__")) return false;
  const nb::object capsule = DlpackCapsule(object, what);
  nb::ndarray<nb::ro> readable;
  if (access == Access::kRead) {
    if (!nb::try_cast(capsule, readable, false)) FailArgument(what, "exports by DLPack what cannot be read");
    tensor_ = std::make_shared<nb::ndarray<nb::ro>>(readable);
    return TakeTensor(readable, what);
  }
  nb::ndarray<> writable;
  if (!nb::try_cast(capsule, writable, false)) FailArgument(what, kReadOnly);
  tensor_ = std::make_shared<nb::ndarray<>>(writable);
  return TakeTensor(writable, what);
}

}  // namespace tutti_python
