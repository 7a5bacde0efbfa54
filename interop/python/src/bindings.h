// The parts of the module tutti._core. Each adds methods or classes, once, when the module is imported.
#pragma once

#include <nanobind/nanobind.h>

#include "communicator.h"

namespace tutti_python {

using CommunicatorClass = nanobind::class_<Communicator>;

void BindLifecycle(nanobind::module_& module, CommunicatorClass& communicator);
void BindCollectives(CommunicatorClass& communicator);
void BindRooted(CommunicatorClass& communicator);
void BindVForms(CommunicatorClass& communicator);
void BindStreams(nanobind::module_& module);

}  // namespace tutti_python
