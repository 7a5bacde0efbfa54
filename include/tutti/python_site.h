// Names the line of Python that calls, for messages (CallsFrom in extension.h). For extension modules in C++ that
// call Tutti on behalf of Python code: tutti and tutti_torch. Needs Python's headers and C++17.
//
// Each code object keeps the sites of its lines, and frees them when it is freed.
//
// Thread-safety: CurrentPythonSite() needs the GIL; the rest does not.
#ifndef TUTTI_PYTHON_SITE_H_
#define TUTTI_PYTHON_SITE_H_

#include <Python.h>
// After the one above:
#include <frameobject.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/extension.h"

namespace tutti::python_site {

// A line that calls. Does not move, because `site` points into `text`.
class PythonSite {
 public:
  explicit PythonSite(std::string text) : text_(std::move(text)), site_{HashOf(text_), text_.c_str()} {}
  PythonSite(const PythonSite&) = delete;
  PythonSite& operator=(const PythonSite&) = delete;

  const tuttiCallSite_t& site() const { return site_; }

 private:
  // FNV-1a, without the bit that a key lacks.
  static std::uint64_t HashOf(std::string_view text) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash >> 1;
  }

  const std::string text_;
  const tuttiCallSite_t site_;
};
using SitePointer = std::shared_ptr<const PythonSite>;

// For CallsFrom; null for null.
inline const tuttiCallSite_t* AsCallSite(const PythonSite* site) { return site == nullptr ? nullptr : &site->site(); }

namespace internal {

struct Unreference {
  void operator()(void* object) const { Py_DECREF(static_cast<PyObject*>(object)); }
};
template <typename T>
using Owned = std::unique_ptr<T, Unreference>;

// Packages that call Tutti because their user called them.
inline bool CallsForItsUser(std::string_view module) {
  const auto package = module.substr(0, module.find('.'));
  for (const std::string_view each : {"tutti", "tutti_torch", "torch", "ray"}) {
    if (package == each) return true;
  }
  return false;
}

// The module in whose names a frame's code runs.
inline std::string ModuleOf(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  const Owned<PyObject> globals(PyFrame_GetGlobals(frame));
  PyObject* const names = globals.get();
#else
  PyObject* const names = frame->f_globals;
#endif
  PyObject* const name = PyDict_Check(names) ? PyDict_GetItemString(names, "__name__") : nullptr;
  const char* const text = name != nullptr && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "" : text;
}

// The instruction that a frame executes.
inline int InstructionOf(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti;
#endif
}

// An attribute that is a text; bytes that are no UTF-8 are escaped.
inline std::string TextOf(PyCodeObject* code, const char* attribute) {
  const Owned<PyObject> value(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), attribute));
  const Owned<PyObject> bytes(value == nullptr ? nullptr
                                               : PyUnicode_AsEncodedString(value.get(), "utf-8", "backslashreplace"));
  if (bytes != nullptr) return PyBytes_AsString(bytes.get());
  PyErr_Clear();
  return "?";
}

// What is known of a code object.
class CodeSites {
 public:
  explicit CodeSites(PyFrameObject* frame) : for_user_(CallsForItsUser(ModuleOf(frame))) {}

  bool for_user() const { return for_user_; }
  const SitePointer& At(PyFrameObject* frame, PyCodeObject* code) {
    const int instruction = InstructionOf(frame);
    const auto known =
        std::find_if(sites_.begin(), sites_.end(), [&](const auto& each) { return each.first == instruction; });
    if (known != sites_.end()) return known->second;
    const auto name = TextOf(code, "co_name");
    auto text = TextOf(code, "co_filename") + ":" + std::to_string(PyFrame_GetLineNumber(frame));
    if (name != "<module>") text += " in " + name;
    return sites_.emplace_back(instruction, std::make_shared<const PythonSite>(std::move(text))).second;
  }

 private:
  const bool for_user_;
  // By instruction; a function has few that call. A list, because a finalizer that Python runs meanwhile may add to it.
  std::list<std::pair<int, SitePointer>> sites_;
};

#if PY_VERSION_HEX >= 0x030C0000
inline int GetExtra(PyObject* code, Py_ssize_t index, void** extra) {
  return PyUnstable_Code_GetExtra(code, index, extra);
}
inline int SetExtra(PyObject* code, Py_ssize_t index, void* extra) {
  return PyUnstable_Code_SetExtra(code, index, extra);
}
inline Py_ssize_t RequestIndex(freefunc free) { return PyUnstable_Eval_RequestCodeExtraIndex(free); }
#else
inline int GetExtra(PyObject* code, Py_ssize_t index, void** extra) { return _PyCode_GetExtra(code, index, extra); }
inline int SetExtra(PyObject* code, Py_ssize_t index, void* extra) { return _PyCode_SetExtra(code, index, extra); }
inline Py_ssize_t RequestIndex(freefunc free) { return _PyEval_RequestCodeExtraIndex(free); }
#endif

// Null if Python has no room for it.
inline CodeSites* SitesOf(PyFrameObject* frame, PyCodeObject* code) {
  static const Py_ssize_t index = RequestIndex([](void* sites) { delete static_cast<CodeSites*>(sites); });
  auto* const object = reinterpret_cast<PyObject*>(code);
  void* known = nullptr;
  if (index < 0 || GetExtra(object, index, &known) != 0) {
    PyErr_Clear();
    return nullptr;
  }
  if (known != nullptr) return static_cast<CodeSites*>(known);
  auto sites = std::make_unique<CodeSites>(frame);
  if (SetExtra(object, index, sites.get()) == 0) return sites.release();
  PyErr_Clear();
  return nullptr;
}

}  // namespace internal

// The line that called, of the user's code if there is any: packages that call for their user are passed over. Null: no
// Python code runs in this thread, or memory is short. The reference is good until the GIL is released; the site, while the
// code that called runs.
inline const SitePointer& CurrentPythonSite() noexcept {
  static const SitePointer none;
  try {
    internal::Owned<PyFrameObject> owned;
    const SitePointer* nearest = &none;
    for (PyFrameObject* frame = PyEval_GetFrame(); frame != nullptr;) {
      const internal::Owned<PyCodeObject> code(PyFrame_GetCode(frame));
      auto* const sites = internal::SitesOf(frame, code.get());
      if (sites == nullptr) return none;
      if (!sites->for_user()) return sites->At(frame, code.get());
      if (*nearest == nullptr) nearest = &sites->At(frame, code.get());
      owned.reset(PyFrame_GetBack(frame));
      frame = owned.get();
    }
    return *nearest;
  } catch (const std::bad_alloc&) {
    return none;
  }
}

}  // namespace tutti::python_site

#endif  // TUTTI_PYTHON_SITE_H_
