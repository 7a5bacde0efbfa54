#include "selection/tuner/calibration.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files/files.h"
#include "base/files/json.h"
#include "topology/detect/host.h"

namespace tutti::tuner {
namespace {

constexpr int kVersion = 1;
constexpr char kFormat[] = "tutti_calibration";
constexpr char kCosts[] = "costs";
constexpr char kTables[] = "tables";

cost_model::HostTraits ThisHost(int cores) {
  return {detect::CacheShareBytes(cores), detect::HasFastStringCopies(), detect::HasWideCaches()};
}

}  // namespace

std::string DefaultCalibrationPath() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return "";
  // An empty or relative name counts as unset (XDG Base Directory Specification): the current directory may be
  // anybody's.
  const auto folder = [](const char* name) -> std::filesystem::path {
    const char* const text = secure_getenv(name);
    return text != nullptr && text[0] == '/' ? text : "";
  };
  auto root = folder("XDG_CACHE_HOME");
  if (const auto home = folder("HOME"); root.empty() && !home.empty()) root = home / ".cache";
  return root.empty() ? "" : root / "tutti" / (std::string(host.data()) + ".json");
}

Calibration LoadCalibration(const std::string& path, int cores) {
  std::string name = path;
  if (name.empty()) {
    name = DefaultCalibrationPath();
    std::error_code error;
    if (name.empty() || !std::filesystem::exists(name, error)) name = "none";
  }
  if (name == "none") return {"", cost_model::DefaultHostCosts(cores, ThisHost(cores))};
  return ParseCalibration(ReadFile(name, kMaxTableFile), name, cores);
}

Calibration ParseCalibration(const std::string& text, const std::string& name, int cores) {
  const JsonDocument document(text, name);
  const auto root = document.root();
  root.Whole(kFormat, kVersion, kVersion);
  Calibration calibration{name, cost_model::HostCostsFromJson(root.At(kCosts))};
  // The ranks of this job may share fewer cores than the measured ones did.
  calibration.costs.costs.cores = cores;
  if (!root.Has(kTables)) return calibration;
  for (const auto& table : root.List(kTables)) calibration.tables.push_back(table.Spelled());
  return calibration;
}

std::string ToJson(const Calibration& calibration) {
  nlohmann::ordered_json json;
  json[kFormat] = kVersion;
  json[kCosts] = nlohmann::ordered_json::parse(cost_model::ToJson(calibration.costs));
  json[kTables] = nlohmann::ordered_json::array();
  for (const auto& table : calibration.tables) json[kTables].push_back(nlohmann::ordered_json::parse(table));
  return JsonText(json);
}

bool Calibration::TableFor(const cost_model::TuningContext& tuning, SelectionTable& table) const {
  // Measurements hold for free choices, with one thread a rank: helper threads then have no part.
  const cost_model::Forced& forced = tuning.forced;
  bool free = forced.channels == 0 && forced.least_channels <= 1 && forced.most_channels == 0 &&
              forced.chunk_bytes == 0 && !forced.protocol && !forced.without && !forced.cma &&
              forced.allowed == cost_model::FilledWith(cost_model::kAnyAlgorithm) && !tuning.deterministic &&
              (tuning.threads == 1 || !forced.threads);
  for (const auto& algorithm : forced.algorithm) free = free && !algorithm;
  if (!free) return false;
  for (const auto& text : tables) {
    if (!SelectionTable::IsFor(text, name, tuning)) continue;
    table = SelectionTable::FromJson(text, name, tuning);
    return true;
  }
  return false;
}

}  // namespace tutti::tuner
