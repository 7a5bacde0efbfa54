#include "algorithms/calibration.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace tutti {
namespace {

constexpr int kVersion = 1;
constexpr char kFormat[] = "tutti_calibration";
constexpr char kCosts[] = "costs";
constexpr char kTables[] = "tables";

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) Throw(tuttiSystemError, "cannot read {}: {}", path, std::strerror(errno));
  return text.str();
}

std::string DefaultCalibrationPath() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return "";
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache == nullptr && home == nullptr) return "";
  const auto root = cache != nullptr ? std::filesystem::path(cache) : std::filesystem::path(home) / ".cache";
  return root / "tutti" / (std::string(host.data()) + ".json");
}

Calibration LoadCalibration(const std::string& path, int cores) {
  std::string name = path;
  if (name.empty()) {
    name = DefaultCalibrationPath();
    std::error_code error;
    if (name.empty() || !std::filesystem::exists(name, error)) name = "none";
  }
  if (name == "none") return {"", DefaultHostCosts(cores)};
  const auto json = nlohmann::json::parse(ReadFile(name), nullptr, false);
  if (!json.is_object() || json.value(kFormat, 0) != kVersion || !json.contains(kCosts)) {
    Throw(tuttiInvalidArgument, "{} is no calibration of version {}", name, kVersion);
  }
  Calibration calibration{name, HostCostsFromJson(json[kCosts].dump(), name)};
  // The ranks of this job may share fewer cores than were there when it was measured.
  calibration.costs.costs.cores = cores;
  if (json.contains(kTables) && json[kTables].is_array()) {
    for (const auto& table : json[kTables]) calibration.tables.push_back(table.dump());
  }
  return calibration;
}

std::string ToJson(const Calibration& calibration) {
  nlohmann::ordered_json json;
  json[kFormat] = kVersion;
  json[kCosts] = nlohmann::ordered_json::parse(ToJson(calibration.costs));
  json[kTables] = nlohmann::ordered_json::array();
  for (const auto& table : calibration.tables) json[kTables].push_back(nlohmann::ordered_json::parse(table));
  return json.dump(1) + "\n";
}

bool Calibration::TableFor(const Conditions& conditions, SelectionTable& table) const {
  // What was measured holds for free choices by one thread a rank.
  const Forced& forced = conditions.forced;
  bool free = forced.channels == 0 && forced.chunk_bytes == 0 && !forced.wire && !conditions.deterministic &&
              conditions.threads == 1;
  for (const auto& algorithm : forced.algorithm) free = free && !algorithm;
  if (!free) return false;
  for (const auto& text : tables) {
    if (!SelectionTable::IsFor(text, conditions)) continue;
    table = SelectionTable::FromJson(text, name, conditions);
    return true;
  }
  return false;
}

}  // namespace tutti
