// A communicator's configuration: the environment's, or its parent's, with a config's fields over it.
//
// Thread-safety: any thread.
#pragma once

#include "src/communicator.h"

namespace tutti {

// What the environment says. `given` may be null, and older (shorter) or newer (longer) than this library's. Throws
// tuttiInvalidArgument.
Options OptionsOf(const tuttiConfig_t* given);
// What a communicator that comes of `parent` has where its config says nothing.
Options OptionsOf(const Communicator& parent, const tuttiConfig_t* given);

}  // namespace tutti
