// Data parallelism: gradients averaged, and sharded state.
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {

void BindData([[maybe_unused]] nb::module_& module) {}

}  // namespace tutti_python
