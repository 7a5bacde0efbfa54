// A description of this machine for the files that results are kept in. Reads /proc only.
#pragma once

#include "bench/worker/channel.h"

namespace tutti::bench {

Json DescribeMachine();

}  // namespace tutti::bench
