// A description of this machine for result files. Reads /proc only.
#pragma once

#include "bench/worker/channel.h"

namespace tutti::bench {

Json DescribeMachine();

}  // namespace tutti::bench
