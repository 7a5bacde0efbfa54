// Direct: every rank meets every other one without a detour. One-shot: every rank posts everything and reduces all of
// it itself, in one trip. Inside a host this is flat copy-in / copy-out through shared slots.
#pragma once

#include "algorithms/builders/build.h"

namespace tutti::builders {

Schedule BuildDirect(const ScheduleRequest& request);

}  // namespace tutti::builders
