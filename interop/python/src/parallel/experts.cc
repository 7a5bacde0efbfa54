// Expert parallelism: routing, dispatch and combine.
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {

void BindExperts([[maybe_unused]] nb::module_& module) {}

}  // namespace tutti_python
