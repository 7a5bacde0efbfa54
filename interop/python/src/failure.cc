#include "failure.h"

namespace nb = nanobind;

namespace tutti_python {

void SetError(tuttiResult_t code, const std::string& message) {
  const std::string text = message.empty() ? tuttiGetErrorString(code) : message;
  // Text of another program, such as a path, may be no UTF-8.
  const nb::object said = nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  const nb::object error = nb::module_::import_("tutti._errors").attr("of_code")(static_cast<int>(code), said);
  PyErr_SetObject(error.type().ptr(), error.ptr());
}

void Fail(tuttiResult_t code, const std::string& message) {
  SetError(code, message);
  throw nb::python_error();
}

void FailType(const std::string& what, nb::handle given, const std::string& advice) {
  const nb::object type = nb::steal(PyType_GetName(Py_TYPE(given.ptr())));
  throw nb::type_error((what + " is of type " + nb::str(type).c_str() + advice).c_str());
}

void Check(tuttiResult_t code) {
  if (code != tuttiSuccess) Fail(code, tuttiGetLastError(nullptr));
}

void CheckSignals(const char* ended) {
  if (PyErr_CheckSignals() == 0) return;
  nb::python_error error;
  const bool silent = error.matches(PyExc_KeyboardInterrupt) && nb::len(nb::object(error.value().attr("args"))) == 0;
  if (silent) error.value().attr("args") = nb::make_tuple(ended);
  throw error;
}

}  // namespace tutti_python
