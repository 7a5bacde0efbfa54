// Loads a library in a process of its own first, to learn whether that ends the process: code that a library runs when
// it is loaded may crash, exit or never return, and this process should report that, not suffer it.
//
// Thread-safety: functions without state.
#pragma once

#include <string>

#include "base/clocks/deadline.h"

namespace tutti::plugin {

// What goes wrong when `library` is loaded, for a person: "it crashes while ..."; "" if nothing does, or this system
// offers no way to find out. `library` is what dlopen() takes. The process that is started is /bin/true, into which the
// dynamic loader loads the library (LD_PRELOAD): it shares nothing with this one, so locks and devices of this process
// do not matter to it. At the deadline it is killed.
std::string WhyLoadingFails(const std::string& library, Deadline deadline);

}  // namespace tutti::plugin
