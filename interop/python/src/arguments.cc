#include "arguments.h"

#include <dlfcn.h>

#include <cstring>

namespace nb = nanobind;

namespace tutti_python {
namespace {

// How nanobind calls a function that takes keywords; written while the module is imported.
constinit vectorcallfunc nanobind_call = nullptr;

// Whether it is code of this module, which nanobind is part of.
bool IsOurs(vectorcallfunc code) {
  static const int inside = 0;
  Dl_info here{};
  Dl_info there{};
  return dladdr(&inside, &here) != 0 && dladdr(reinterpret_cast<void*>(code), &there) != 0 &&
         there.dli_fbase == here.dli_fbase;
}

// Where a function of nanobind keeps how it is called: behind its head. Null if another nanobind keeps it elsewhere.
vectorcallfunc* CallOf(nb::handle function) {
  if (!nb::hasattr(function, "__nb_signature__")) return nullptr;
  auto* const call = reinterpret_cast<vectorcallfunc*>(reinterpret_cast<char*>(function.ptr()) + sizeof(PyVarObject));
  return IsOurs(*call) ? call : nullptr;
}

// Says what is wrong with the arguments, if that is why the call has failed. Keywords are the last arguments.
void Reword(PyObject* function, PyObject* const* arguments, std::size_t positional, PyObject* keywords) {
  nb::python_error error;
  const bool refused = error.matches(PyExc_TypeError) &&
                       std::strstr(nb::str(error.value()).c_str(), "incompatible function arguments") != nullptr;
  if (!refused) return error.restore();
  nb::list given;
  for (std::size_t i = 1; i < positional; ++i) given.append(nb::handle(arguments[i]));  // without self
  nb::dict named;
  const Py_ssize_t count = keywords == nullptr ? 0 : PyTuple_Size(keywords);
  for (Py_ssize_t i = 0; i < count; ++i)
    named[nb::handle(PyTuple_GetItem(keywords, i))] = nb::handle(arguments[positional + i]);
  const auto overloads = nb::cast<nb::tuple>(nb::handle(function).attr("__nb_signature__"));
  const auto only = nb::cast<nb::tuple>(overloads[0]);  // its signature, docstring and defaults
  const nb::object reason = nb::module_::import_("tutti._names").attr("refusal")(only[0], given, named);
  if (reason.is_none()) return error.restore();
  PyErr_SetObject(PyExc_TypeError, reason.ptr());
}

PyObject* Call(PyObject* function, PyObject* const* arguments, std::size_t flagged, PyObject* keywords) {
  PyObject* const result = nanobind_call(function, arguments, flagged, keywords);
  if (result != nullptr || PyErr_ExceptionMatches(PyExc_TypeError) == 0) return result;
  try {
    Reword(function, arguments, static_cast<std::size_t>(PyVectorcall_NARGS(flagged)), keywords);
  } catch (nb::python_error& error) {
    error.restore();
  }
  return nullptr;
}

}  // namespace

void RefuseAsPythonDoes(nb::handle type, nb::handle with_keywords) {
  if (nanobind_call == nullptr) {
    const auto* const call = CallOf(with_keywords);
    if (call == nullptr) return;
    nanobind_call = *call;
  }
  for (const auto [name, function] : nb::borrow<nb::dict>(type.attr("__dict__").attr("copy")())) {
    auto* const call = CallOf(function);
    if (call != nullptr && *call == nanobind_call) *call = &Call;
  }
}

}  // namespace tutti_python
