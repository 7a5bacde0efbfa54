#include "src/api/options.h"

#include <algorithm>
#include <cstring>

#include "base/extension.h"
#include "base/plain_text.h"
#include "src/memory/device_buffers.h"

namespace tutti::api {
namespace {

constexpr int kMostForcedChannels = 32;
constexpr int kMostThreads = 16;
constexpr int kMostChannels = 1024;  // of TUTTI_MAX_CHANNELS
// The longest communicator name, which appears in every message; the rest is cut off.
constexpr std::size_t kLongestName = 256;

void TakeNumber(const char* name, int value, int low, int high, int& field) {
  if (value == TUTTI_CONFIG_UNDEF_INT) return;
  if (value < low || value > high)
    Throw(tuttiInvalidArgument, "config.{} is {}; it takes {} to {}", name, value, low, high);
  field = value;
}

comm::Options WithConfig(comm::Options options, const tuttiConfig_t* given) {
  if (given == nullptr) return options;
  constexpr auto kHeader = offsetof(tuttiConfig_t, blocking);
  if (given->magic != TUTTI_CONFIG_MAGIC || given->size < kHeader) {
    Throw(tuttiInvalidArgument, "config was not initialised with TUTTI_CONFIG_INITIALIZER");
  }
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  std::memcpy(&config, given, std::min(given->size, sizeof config));
  auto& settings = options.settings;
  int blocking = options.blocking ? 1 : 0, deterministic = settings.deterministic ? 1 : 0;
  TakeNumber("blocking", config.blocking, 0, 1, blocking);
  TakeNumber("channels", config.channels, 1, kMostForcedChannels, settings.channels);
  TakeNumber("minChannels", config.minChannels, 1, kMostForcedChannels, settings.min_channels);
  TakeNumber("maxChannels", config.maxChannels, 1, kMostChannels, settings.max_channels);
  TakeNumber("threads", config.threads, 1, kMostThreads, settings.threads);
  TakeNumber("deterministic", config.deterministic, 0, 1, deterministic);
  TakeNumber("initTimeoutMs", config.initTimeoutMs, 0, INT32_MAX, settings.init_timeout_ms);
  TakeNumber("operationTimeoutMs", config.operationTimeoutMs, 0, INT32_MAX, settings.operation_timeout_ms);
  TakeNumber("device", config.device, TUTTI_DEVICE_NONE, INT32_MAX, options.device);
  options.blocking = blocking != 0;
  settings.deterministic = deterministic != 0;
  if (config.algorithm != nullptr) settings.algorithm = config.algorithm;
  if (config.name != nullptr) options.name = Printable(config.name, kLongestName);
  return options;
}

}  // namespace

void CheckExtension() {
  if (auto* const check = TheExtension().check) RequireSuccess(check);
}

comm::Options OptionsOf(const tuttiConfig_t* given) {
  CheckExtension();
  const auto& settings = GlobalSettings();
  return WithConfig({settings, "", true, settings.gpu ? memory::CurrentCudaDevice() : TUTTI_DEVICE_NONE, 0}, given);
}

comm::Options OptionsOf(const comm::Communicator& parent, const tuttiConfig_t* given) {
  auto options = parent.options();
  options.name.clear();
  options.id = 0;
  return WithConfig(std::move(options), given);
}

}  // namespace tutti::api
