// Network plug-ins of NCCL, for the code that chooses a transport. A process loads a plug-in once.
#pragma once

#include "transports/progress/network_kind.h"

namespace tutti::plugin {

extern const progress::NetworkKind kNetwork;

}  // namespace tutti::plugin
