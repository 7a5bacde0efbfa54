// The commands of the `tutti` tool. Each is one file that adds a subcommand with its options; running it is the
// subcommand's callback, which throws Error with a message for a person.
#pragma once

namespace CLI {
class App;
}

namespace tutti::tools {

void AddSettings(CLI::App& app);  // tutti settings
void AddShow(CLI::App& app);      // tutti show ring all_reduce --ranks 4 --svg OUT
void AddVerify(CLI::App& app);    // tutti verify FILE.xml

}  // namespace tutti::tools
