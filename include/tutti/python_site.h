// Names the line of Python that calls, for messages (CallsFrom in extension.h). For extension modules in C++ that
// call Tutti on behalf of Python code: tutti and tutti_torch. Needs Python's headers and C++17.
//
// Each code object keeps the sites of its lines, and frees them when it is freed. With Py_LIMITED_API, it is for CPython 3.12
// and later.
//
// Thread-safety: CurrentPythonSite() needs the GIL; the rest does not.
#ifndef TUTTI_PYTHON_SITE_H_
#define TUTTI_PYTHON_SITE_H_

#include <Python.h>
// After the one above:
#include <dlfcn.h>
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

// What this file needs of CPython and Python's limited API lacks.
struct Frames {
#ifdef Py_LIMITED_API
  // Looked up in the CPython that runs. Null: it has none of this name.
  template <typename Function>
  static Function* Find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  }

  PyFrameObject* (*const back)(PyFrameObject*) = Find<PyFrameObject*(PyFrameObject*)>("PyFrame_GetBack");
  PyObject* (*const globals)(PyFrameObject*) = Find<PyObject*(PyFrameObject*)>("PyFrame_GetGlobals");
  int (*const instruction)(PyFrameObject*) = Find<int(PyFrameObject*)>("PyFrame_GetLasti");
  int (*const get_extra)(PyObject*, Py_ssize_t, void**) =
      Find<int(PyObject*, Py_ssize_t, void**)>("PyUnstable_Code_GetExtra");
  int (*const set_extra)(PyObject*, Py_ssize_t, void*) =
      Find<int(PyObject*, Py_ssize_t, void*)>("PyUnstable_Code_SetExtra");
  Py_ssize_t (*const request_index)(freefunc) =
      Find<Py_ssize_t(freefunc)>("PyUnstable_Eval_RequestCodeExtraIndex");

  bool complete() const {
    return back != nullptr && globals != nullptr && instruction != nullptr && get_extra != nullptr &&
           set_extra != nullptr && request_index != nullptr;
  }
#else
  static PyFrameObject* back(PyFrameObject* frame) { return PyFrame_GetBack(frame); }
#if PY_VERSION_HEX >= 0x030B0000
  static PyObject* globals(PyFrameObject* frame) { return PyFrame_GetGlobals(frame); }
  static int instruction(PyFrameObject* frame) { return PyFrame_GetLasti(frame); }
#else
  static PyObject* globals(PyFrameObject* frame) { return Py_NewRef(frame->f_globals); }
  static int instruction(PyFrameObject* frame) { return frame->f_lasti; }
#endif
#if PY_VERSION_HEX >= 0x030C0000
  static int get_extra(PyObject* code, Py_ssize_t index, void** extra) {
    return PyUnstable_Code_GetExtra(code, index, extra);
  }
  static int set_extra(PyObject* code, Py_ssize_t index, void* extra) {
    return PyUnstable_Code_SetExtra(code, index, extra);
  }
  static Py_ssize_t request_index(freefunc free) { return PyUnstable_Eval_RequestCodeExtraIndex(free); }
#else
  static int get_extra(PyObject* code, Py_ssize_t index, void** extra) { return _PyCode_GetExtra(code, index, extra); }
  static int set_extra(PyObject* code, Py_ssize_t index, void* extra) { return _PyCode_SetExtra(code, index, extra); }
  static Py_ssize_t request_index(freefunc free) { return _PyEval_RequestCodeExtraIndex(free); }
#endif
  static bool complete() { return true; }
#endif
};

inline const Frames& TheFrames() {
  static const Frames frames;
  return frames;
}

// The module in whose names a frame's code runs.
inline std::string ModuleOf(PyFrameObject* frame) {
  const Owned<PyObject> names(TheFrames().globals(frame));
  PyObject* const name = PyDict_Check(names.get()) ? PyDict_GetItemString(names.get(), "__name__") : nullptr;
  const char* const text =
      name != nullptr && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, nullptr) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? "" : text;
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
    const int instruction = TheFrames().instruction(frame);
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

// Null if Python has no room for it.
inline CodeSites* SitesOf(PyFrameObject* frame, PyCodeObject* code) {
  const Frames& frames = TheFrames();
  static const Py_ssize_t index =
      frames.complete() ? frames.request_index([](void* sites) { delete static_cast<CodeSites*>(sites); }) : -1;
  auto* const object = reinterpret_cast<PyObject*>(code);
  void* known = nullptr;
  if (index < 0 || frames.get_extra(object, index, &known) != 0) {
    PyErr_Clear();
    return nullptr;
  }
  if (known != nullptr) return static_cast<CodeSites*>(known);
  auto sites = std::make_unique<CodeSites>(frame);
  if (frames.set_extra(object, index, sites.get()) == 0) return sites.release();
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
      owned.reset(internal::TheFrames().back(frame));
      frame = owned.get();
    }
    return *nearest;
  } catch (const std::bad_alloc&) {
    return none;
  }
}

}  // namespace tutti::python_site

#endif  // TUTTI_PYTHON_SITE_H_
