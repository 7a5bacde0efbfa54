// Lines on standard error that would be the same from every rank of a job.
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include "base/file_descriptor.h"

namespace tutti {

// Writes `lines` to standard error, unless a process with the same parent has written the same ones and still holds what it
// was returned: of the ranks that a launcher starts on a host, one writes them. Returns none where nothing is to be held.
[[nodiscard]] FileDescriptor TellOnce(const std::string& lines);

}  // namespace tutti
