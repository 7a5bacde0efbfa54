// Memory that a Python object lends for a call: contiguous elements of one type.
//
// Objects lend memory by the buffer protocol, NumPy's array interface (for types that the buffer protocol cannot
// describe), DLPack or CUDA's array interface.
//
// Thread-safety: all functions need the GIL, except the getters. Invariant: while an Array exists, its memory does.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "elements.h"

namespace tutti_python {

enum class Access { kRead, kWrite };

// Of exactly NumPy's type, not of a subclass.
bool IsNumpyArray(nanobind::handle object);

class Array {
 public:
  Array() = default;
  ~Array() { Release(); }
  // The buffer protocol's view may point into itself, so it cannot move.
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  // Takes the object's memory. `what` is the argument's name, for messages. Raises TypeError for an object that lends no
  // memory, InvalidArgumentError for memory that is not contiguous, read-only or of an unknown type.
  // REQUIRES: it holds nothing.
  void Take(nanobind::handle object, const char* what, Access access);
  void Release();

  bool held() const { return held_; }
  void* data() const { return data_; }
  std::size_t count() const { return count_; }  // elements
  const Element& element() const { return element_; }
  bool on_device() const { return on_device_; }
  // Sizes by dimension.
  std::span<const Py_ssize_t> shape() const { return shape_; }

 private:
  bool TakeBuffer(nanobind::handle object, const char* what, Access access);
  bool TakeArrayInterface(nanobind::handle object, const char* attribute, const char* what, Access access);
  bool TakeDlpack(nanobind::handle object, const char* what, Access access);
  template <typename Tensor>
  bool TakeTensor(const Tensor& tensor, const char* what);
  void SetShape(std::vector<Py_ssize_t> extents);

  void* data_ = nullptr;
  std::size_t count_ = 0;
  Element element_;
  bool on_device_ = false;
  bool held_ = false;
  std::span<const Py_ssize_t> shape_;
  Py_buffer view_{};                 // view_.obj is null if the memory was lent another way
  std::vector<Py_ssize_t> extents_;  // behind shape_ in that case
  std::shared_ptr<void> tensor_;     // of DLPack
  nanobind::object owner_;
};

}  // namespace tutti_python
