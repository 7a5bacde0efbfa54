// Refusals of arguments in Python's words: nanobind's list every type that it knows.
//
// Thread-safety: needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

namespace tutti_python {

// The functions of a class that take keywords refuse arguments like functions of Python. `with_keywords`: one of these,
// of the first class. REQUIRES: the class has all its functions, and the module is being imported.
void RefuseAsPythonDoes(nanobind::handle type, nanobind::handle with_keywords);

}  // namespace tutti_python
