// Pipeline parallelism: schedules, and their runs.
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {

void BindPipeline([[maybe_unused]] nb::module_& module) {}

}  // namespace tutti_python
