#include "tools/json.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/files/json.h"
#include "selection/cost_model/candidates.h"

namespace tutti::tools {

void AddJsonFlag(CLI::App& command, bool& json) { command.add_flag("--json", json, "print JSON"); }

void PrintJson(const nlohmann::ordered_json& json) { fmt::print("{}", JsonText(json)); }

nlohmann::ordered_json JsonOf(const cost_model::Candidate& candidate) {
  return {{"algorithm", builders::NameOf(candidate.algorithm)},
          {"channels", candidate.channels},
          {"chunk_bytes", candidate.config.chunk_bytes},
          {"protocol", ring::NameOf(candidate.config.protocol)}};
}

}  // namespace tutti::tools
