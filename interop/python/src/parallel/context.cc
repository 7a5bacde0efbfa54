// Context parallelism: the Ulysses exchange, ring attention, and both together.
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {

void BindContext([[maybe_unused]] nb::module_& module) {}

}  // namespace tutti_python
