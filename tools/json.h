// The commands' results as JSON, for --json. Numbers have their units in their names; times are in microseconds ("us"),
// bandwidths in GB/s ("gbs"), 10^9 bytes a second.
//
// Thread-safety: pure functions.
#pragma once

#include <nlohmann/json.hpp>

namespace CLI {
class App;
}
namespace tutti::cost_model {
struct Candidate;
}

namespace tutti::tools {

// The flag --json of a command.
void AddJsonFlag(CLI::App& command, bool& json);
void PrintJson(const nlohmann::ordered_json& json);

// {"algorithm": "ring", "channels": 2, "chunk_bytes": 131072, "protocol": "bulk"}
nlohmann::ordered_json JsonOf(const cost_model::Candidate& candidate);

}  // namespace tutti::tools
