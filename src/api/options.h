// A communicator's configuration: the environment's or its parent's, overridden by a config's fields.
//
// Thread-safety: any thread.
#pragma once

#include "src/communicator/communicator.h"

namespace tutti::api {

// The environment's options, overridden by those that `given` sets. `given` may be null, or older (shorter) or newer
// (longer) than this library's struct. Throws tuttiInvalidArgument.
comm::Options OptionsOf(const tuttiConfig_t* given);
// Options of a communicator derived from `parent`: the parent's where the config sets nothing.
comm::Options OptionsOf(const comm::Communicator& parent, const tuttiConfig_t* given);

// Throws what the library on top finds wrong with what the user has set.
void CheckExtension();

}  // namespace tutti::api
