// The commands of the `tutti` tool. Each is one file that adds a subcommand with its options; running it is the
// subcommand's callback, which throws Error with a message for a person.
#pragma once

namespace CLI {
class App;
}

namespace tutti::tools {

void AddSettings(CLI::App& app);  // tutti settings
void AddSimulate(CLI::App& app);  // tutti simulate
void AddTopo(CLI::App& app);      // tutti topo

}  // namespace tutti::tools
