// Verbs, for the code that chooses a transport. This header needs no verbs header, so that builds without verbs have it,
// too.
#pragma once

#include "transports/progress/network_kind.h"

namespace tutti::verbs {

extern const progress::NetworkKind kNetwork;

}  // namespace tutti::verbs
