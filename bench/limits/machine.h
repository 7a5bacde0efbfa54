// A description of this machine for result files. Reads /proc only.
#pragma once

#include "bench/worker/control_socket.h"

namespace tutti::bench {

Json DescribeMachine();

}  // namespace tutti::bench
