// The module tutti._parallel.
#include <nanobind/nanobind.h>
#include <tutti/parallel/error.h>

#include <exception>

#include "../failure.h"
#include "parallel.h"

namespace nb = nanobind;

NB_MODULE(_parallel, module) {
  using namespace tutti_python;
  nb::set_leak_warnings(false);  // as tutti._core
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const tutti::parallel::Error& thrown) {
      if (PyErr_CheckSignals() != 0) return;  // Ctrl-C ended the call
      SetError(thrown.code(), thrown.what());
    }
  });
  BindCompute(module);
  BindGroups(module);
  BindLayers(module);
  BindContext(module);
  BindData(module);
  BindExperts(module);
  BindPipeline(module);
  BindServing(module);
}
