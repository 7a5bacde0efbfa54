#include "interop/nccl/environment/environment.h"

#include <fmt/format.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/files/files.h"
#include "interop/nccl/environment/choice_lists.h"
#include "interop/nccl/environment/environment_table.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/nccl.h"

namespace tutti::nccl {
namespace {

constexpr long long kMostSockets = 16;         // TUTTI_SOCKETS
constexpr long long kMostForcedChannels = 32;  // TUTTI_MIN_CHANNELS
constexpr long long kMostChannels = 1024;      // TUTTI_MAX_CHANNELS

bool SameWord(const std::string& text, const char* word) { return strcasecmp(text.c_str(), word) == 0; }

// Whether it looks like host:port.
bool IsPlace(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return false;
  constexpr int kMostPort = 65535;
  int port = 0;
  const auto [end, status] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  return status == std::errc() && end == text.data() + text.size() && port > 0 && port <= kMostPort;
}

std::optional<std::string> OfProcess(std::string_view name) {
  const char* const text = std::getenv(std::string(name).c_str());
  return text == nullptr ? std::nullopt : std::optional<std::string>(text);
}

std::vector<ConfigFile> ConfigFiles() {
  const auto named = OfProcess("NCCL_CONF_FILE");
  const auto home = OfProcess("HOME");
  std::vector<ConfigFile> files;
  if (named && !named->empty()) {
    files.push_back(ReadConfigFile(*named));
  } else if (home) {
    files.push_back(ReadConfigFile(*home + "/.nccl.conf"));
  }
  files.push_back(ReadConfigFile("/etc/nccl.conf"));
  return files;
}

}  // namespace

ConfigFile ReadConfigFile(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // far beyond all variables with their values
  if (access(path.c_str(), F_OK) != 0) return {};
  try {
    return {ReadFile(path, kMostBytes)};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

Environment::Environment(Lookup variables, const std::vector<ConfigFile>& files) : variables_(std::move(variables)) {
  for (const auto& file : files) {
    if (!file.problem.empty()) remarks_.push_back(fmt::format("a config file is ignored: {}", file.problem));
    std::istringstream lines(file.text);
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      const auto equals = line.find('=');
      if (line.starts_with('#') || equals == line.npos) continue;
      configured_.emplace(line.substr(0, equals), line.substr(equals + 1));  // the first file's value stays
    }
  }
  try {
    Follow();
  } catch (const Refusal& refusal) {
    problem_ = Problem{refusal.code(), refusal.what()};
  }
  Remark();
}

const Environment& Environment::OfThisProcess() {
  static const Environment environment(OfProcess, ConfigFiles());
  return environment;
}

std::optional<std::string> Environment::Value(std::string_view name) const {
  auto text = variables_(name);
  if (!text) {
    const auto found = configured_.find(name);
    if (found != configured_.end()) text = found->second;
  }
  return text && text->empty() ? std::nullopt : text;
}

// Tutti's own variable wins, and so does the first of several that mean the same.
void Environment::Give(std::string_view setting, std::string text, std::string_view source) {
  if (!text.empty() && !Value(setting)) settings_.emplace(setting, Setting{std::move(text), source});
}

// As NCCL, ignores what is no number.
std::optional<long long> Environment::Number(std::string_view name) {
  const auto text = Value(name);
  if (!text) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text->c_str(), &end, 0);
  if (errno == 0 && *end == '\0') return number;
  remarks_.push_back(fmt::format("Invalid value {} for {}, using default.", *text, name));
  return std::nullopt;
}

void Environment::GiveIf(std::string_view name, long long value, std::string_view setting, std::string_view text) {
  if (const auto number = Number(name); number && (*number != 0) == (value != 0))
    Give(setting, std::string(text), name);
}

void Environment::Follow() {
  // Those whose text is Tutti's text.
  for (const auto& variable : KnownVariables()) {
    if (!variable.as_it_is) continue;
    const bool is_number = variable.name.starts_with("NCCL_IB_") && variable.name != "NCCL_IB_HCA";
    if (is_number) {
      if (const auto number = Number(variable.name)) Give(variable.setting, std::to_string(*number), variable.name);
    } else if (auto text = Value(variable.name)) {
      Give(variable.setting, *text, variable.name);
    }
  }
  GiveIf("NCCL_P2P_DISABLE", 1, "TUTTI_GPU_P2P", "0");
  if (const auto level = Value("NCCL_P2P_LEVEL"); level && (SameWord(*level, "LOC") || *level == "0")) {
    Give("TUTTI_GPU_P2P", "0", "NCCL_P2P_LEVEL");
  }
  FollowGpuDirect();
  GiveIf("NCCL_P2P_DIRECT_DISABLE", 1, "TUTTI_ZERO_COPY", "0");
  GiveIf("NCCL_NVLS_ENABLE", 0, "TUTTI_NVLS", "0");
  if (const auto policy = Number("NCCL_CTA_POLICY"); policy && (*policy & NCCL_CTA_POLICY_ZERO) != 0) {
    Give("TUTTI_COPY_ENGINE", "1", "NCCL_CTA_POLICY");
  }
  FollowChannels();
  FollowNetwork();
  FollowChoices();
  const auto place = settings_.find("TUTTI_COMM_ID");
  if (place != settings_.end() && !IsPlace(place->second.text)) {
    Refuse(ncclInvalidArgument, "NCCL_COMM_ID=\"{}\" is not allowed: it takes host:port, as in 10.0.0.1:29500",
           place->second.text);
  }
}

void Environment::FollowGpuDirect() {
  GiveIf("NCCL_DMABUF_ENABLE", 0, "TUTTI_GPUDIRECT", "LOC");  // the first to give a setting counts
  const auto level = Value("NCCL_NET_GDR_LEVEL");
  if (!level) return;
  constexpr std::array<const char*, 5> kLevels = {"LOC", "PIX", "PXB", "PHB", "SYS"};
  for (const char* const word : kLevels) {
    if (SameWord(*level, word)) Give("TUTTI_GPUDIRECT", word, "NCCL_NET_GDR_LEVEL");
  }
  const bool starts_with_digit = level->find_first_of("0123456789") == 0;
  const auto number = starts_with_digit ? Number("NCCL_NET_GDR_LEVEL") : std::nullopt;
  if (!number) return;
  const auto index = std::min(static_cast<std::size_t>(*number), kLevels.size() - 1);
  Give("TUTTI_GPUDIRECT", kLevels[index], "NCCL_NET_GDR_LEVEL");
}

void Environment::FollowNetwork() {
  if (const auto family = Value("NCCL_SOCKET_FAMILY")) {
    if (*family == "AF_INET") Give("TUTTI_SOCKET_FAMILY", "inet", "NCCL_SOCKET_FAMILY");
    if (*family == "AF_INET6") Give("TUTTI_SOCKET_FAMILY", "inet6", "NCCL_SOCKET_FAMILY");
  }
  const auto threads = Number("NCCL_SOCKET_NTHREADS"), sockets = Number("NCCL_NSOCKS_PERTHREAD");
  if (threads.value_or(0) > 0 || sockets.value_or(0) > 0) {
    const auto each = [](std::optional<long long> count) { return std::clamp(count.value_or(1), 1LL, kMostSockets); };
    Give("TUTTI_SOCKETS", std::to_string(std::min(kMostSockets, each(threads) * each(sockets))),
         threads ? "NCCL_SOCKET_NTHREADS" : "NCCL_NSOCKS_PERTHREAD");
  }
  const auto plug_in = Value("NCCL_NET_PLUGIN");
  const bool named = plug_in && !plug_in->empty() && !SameWord(*plug_in, "none");
  if (named) Give("TUTTI_NET_PLUGIN", *plug_in, "NCCL_NET_PLUGIN");
  const auto net = Value("NCCL_NET");
  if (!net) {
    if (!named) GiveIf("NCCL_IB_DISABLE", 1, "TUTTI_NET", "tcp");
    return;
  }
  if (Value("TUTTI_NET")) return;
  // A plug-in has a name of its own.
  const char* const ours = SameWord(*net, "Socket") ? "tcp"
                           : SameWord(*net, "IB")   ? "verbs"
                           : SameWord(*net, "UCX")  ? "ucx"
                           : named                  ? "plugin"
                                                    : nullptr;
  if (ours == nullptr) {
    Refuse(ncclInvalidUsage,
           "NCCL_NET=\"{}\" names a network that Tutti lacks; it takes Socket, IB and UCX, and others with "
           "NCCL_NET_PLUGIN",
           *net);
  }
  Give("TUTTI_NET", ours, "NCCL_NET");
}

void Environment::FollowChannels() {
  for (const auto* name : {"NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MIN_NRINGS"}) {
    if (const auto number = Number(name); number.value_or(0) > 0) {
      Give("TUTTI_MIN_CHANNELS", std::to_string(std::min(*number, kMostForcedChannels)), name);
    }
  }
  for (const auto* name : {"NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_MAX_NRINGS"}) {
    if (const auto number = Number(name); number.value_or(0) > 0) {
      Give("TUTTI_MAX_CHANNELS", std::to_string(std::min(*number, kMostChannels)), name);
    }
  }
}

void Environment::FollowChoices() {
  if (const auto text = Value("NCCL_PROTO"); text && !Value("TUTTI_PROTO")) {
    Give("TUTTI_PROTO", TuttiProtocol(*text), "NCCL_PROTO");
  }
  if (const auto text = Value("NCCL_ALGO"); text && !Value("TUTTI_ALGO")) {
    Give("TUTTI_ALGO", TuttiAlgorithms(*text), "NCCL_ALGO");
  }
}

void Environment::Remark() {
  for (const auto& variable : KnownVariables()) {
    const auto text = Value(variable.name);
    if (!text) continue;
    std::string remark = fmt::format("{} set by environment to {}", variable.name, *text);
    const auto setting = settings_.find(variable.setting);
    if (variable.ignored) {
      remark += fmt::format(", which has no meaning here: {}", variable.text);
    } else if (setting != settings_.end() && setting->second.source == variable.name) {
      remark += fmt::format(" ({}={})", variable.setting, setting->second.text);
    } else if (!variable.setting.empty()) {
      remark += Value(variable.setting) ? fmt::format(", but {} is set", variable.setting)
                                        : fmt::format(", which leaves {} as it is", variable.setting);
    }
    remarks_.push_back(std::move(remark));
  }
}

}  // namespace tutti::nccl
