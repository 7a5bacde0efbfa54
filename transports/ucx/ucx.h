// UCX, for the code that chooses a transport. This header needs none of UCX's own, so that builds without UCX have it,
// too.
#pragma once

#include "transports/progress/network_kind.h"

namespace tutti::ucx {

extern const progress::NetworkKind kNetwork;

}  // namespace tutti::ucx
