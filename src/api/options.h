// A communicator's configuration: the environment's, or its parent's, with a config's fields over it.
//
// Thread-safety: any thread.
#pragma once

#include "src/communicator/communicator.h"

namespace tutti {

// The environment's options, with those that `given` sets. `given` may be null, and older (shorter) or newer (longer)
// than this library's. Throws tuttiInvalidArgument.
Options OptionsOf(const tuttiConfig_t* given);
// The options of a communicator that comes of `parent`: the parent's where its config sets nothing.
Options OptionsOf(const Communicator& parent, const tuttiConfig_t* given);

}  // namespace tutti
