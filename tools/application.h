// The `tutti` tool's whole command line.
//
// Thread-safety: one thread.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace tutti::tools {

// A parse runs the subcommand. `status`, which outlives the result: the exit status of one that has its own.
std::unique_ptr<CLI::App> Application(int& status);

}  // namespace tutti::tools
