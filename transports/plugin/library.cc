#include "transports/plugin/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/fork_safe_mutex.h"
#include "base/plain_text.h"
#include "base/threads/made_once.h"
#include "base/threads/quiet_thread.h"
#include "transports/plugin/messages.h"
#include "transports/plugin/trial.h"

namespace tutti::plugin {
namespace {

constexpr std::string_view kDefaultName = "libnccl-net";
constexpr std::string_view kEnding = ".so";

// The outcome of loading: the plug-in, or the reason why there is none.
struct Outcome {
  std::shared_ptr<const Library> library;
  std::string why;
};

// The process's plug-ins, by file. Each is loaded in a thread of its own, so that one that never returns takes no
// caller with it.
struct Plugins {
  ForkSafeMutex mutex;
  std::map<std::string, std::shared_future<Outcome>> by_file;
};

Plugins& ThePlugins() {
  static constinit MadeOnce<Plugins> plugins;
  return plugins.Get();
}

Outcome Load(const std::string& file, Deadline trial_ends) {
  try {
    auto why = WhyLoadingFails(file, trial_ends);
    if (!why.empty()) return {nullptr, fmt::format("net plug-in {}: {}", file, why)};
    return {std::make_shared<const Library>(file), ""};
  } catch (const std::exception& error) {
    return {nullptr, error.what()};
  } catch (...) {
    return {nullptr, fmt::format("net plug-in {}: it threw an exception when it was initialised", file)};
  }
}

std::shared_future<Outcome> Begin(const std::string& file, Deadline trial_ends) {
  auto& plugins = ThePlugins();
  std::promise<Outcome> promise;
  auto future = promise.get_future().share();
  {
    const std::lock_guard lock(plugins.mutex);
    const auto [at, fresh] = plugins.by_file.try_emplace(file, future);
    if (!fresh) return at->second;
  }
  QuietThread([file, trial_ends, promise = std::move(promise)]() mutable {
    promise.set_value(Load(file, trial_ends));
  }).detach();
  return future;
}

}  // namespace

std::string FileOf(const std::string& name) {
  if (name.empty()) return fmt::format("{}{}", kDefaultName, kEnding);
  const bool library = name.starts_with("lib") && name.find(kEnding) != std::string::npos;
  if (library || name.find('/') != std::string::npos) return name;
  return fmt::format("{}-{}{}", kDefaultName, name, kEnding);
}

Reserved::Reserved(const Device& device, int connections) : in_use_(device.in_use), connections_(connections) {
  // Only the count itself is shared, so no order is needed.
  const int before = in_use_->fetch_add(connections, std::memory_order_relaxed);
  if (device.most_connections <= 0 || before + connections <= device.most_connections) return;
  in_use_->fetch_sub(connections, std::memory_order_relaxed);
  in_use_ = nullptr;
}

Reserved::~Reserved() {
  if (in_use_ != nullptr) in_use_->fetch_sub(connections_, std::memory_order_relaxed);
}

struct Library::Kept {
  ForkSafeMutex mutex;
  std::vector<std::unique_ptr<Unfinished>> connections;
};

Library::~Library() = default;

void Library::Keep(std::unique_ptr<Unfinished> connections) const {
  const std::lock_guard lock(kept_->mutex);
  kept_->connections.push_back(std::move(connections));
}

void Library::CloseFinished() const {
  std::vector<std::unique_ptr<Unfinished>> all;
  {
    const std::lock_guard lock(kept_->mutex);
    all.swap(kept_->connections);
  }
  std::erase_if(all, [](const auto& each) { return each->Finished(); });
  const std::lock_guard lock(kept_->mutex);
  std::ranges::move(all, std::back_inserter(kept_->connections));
}

Library::Library(const std::string& file) : file_(file), library_(file.c_str()), kept_(std::make_unique<Kept>()) {
  if (!library_) Throw(tuttiInvalidUsage, "net plug-in {}: cannot load it: {}", file, library_.why());
  net_ = FindNet(library_);
  if (net_ == nullptr) {
    const auto others = OtherTables(library_);
    Throw(tuttiInvalidUsage, "net plug-in {}: it has none of {}{}", file, TablesLookedFor(),
          others.empty() ? "" : fmt::format(" (but {})", others));
  }
  if (const auto missing = net_->missing(); !missing.empty())
    Throw(tuttiInvalidUsage, "{}: its table has no {}", Name(), missing);
  Check("init", context_.Init(*net_));
  int count = 0;
  Check("devices", net_->Devices(&count));
  if (count <= 0) Throw(tuttiInvalidUsage, "{}: it finds no device here", Name());
  std::string why_not;
  for (int index = 0; index < count; ++index) {
    Device device;
    Check("getProperties", net_->GetProperties(index, &device));
    if (device.most_bytes == 0) device.most_bytes = kMostPiece;
    device.most_bytes = std::min(device.most_bytes, kMostPiece);
    if (!device.host_memory) {
      why_not = "cannot carry host memory";
    } else if (device.offloaded) {
      why_not = "needs GPU kernels that know it";
    } else if (device.most_bytes < kMessageBytes) {
      why_not = fmt::format("takes at most {} bytes at a time, where Tutti needs {}", device.most_bytes, kMessageBytes);
    } else if (device.most_connections > 0 && device.most_connections < kConnectionsToAPeer) {
      why_not = fmt::format("makes at most {} connections, where one peer takes {}", device.most_connections,
                            kConnectionsToAPeer);
    } else {
      devices_.push_back(std::move(device));
      continue;
    }
    why_not = fmt::format("device {} {}", device.name, why_not);
  }
  if (devices_.empty()) Throw(tuttiInvalidUsage, "{}: none of its {} devices is of use: {}", Name(), count, why_not);
  std::ranges::stable_sort(devices_, std::greater(), &Device::speed);
}

void Library::Check(std::string_view function, Result result) const {
  if (result != Result::success) {
    Throw(tuttiInvalidUsage, "{} (TUTTI_DEBUG=transport shows what the plug-in itself reports)",
          Failure(function, result));
  }
}

std::string Library::Name() const {
  return fmt::format("net plug-in {} ({}, v{})", Printable(net_->name()), file_, net_->version());
}

std::string Library::Failure(std::string_view function, Result result) const {
  return fmt::format("{}: {} returned {}", Name(), function, Describe(result));
}

std::shared_ptr<const Library> LoadPlugin(const Settings& settings) {
  const auto file = FileOf(settings.net_plugin);
  // The ranks wait for each other to load it, so this one must answer before their patience ends. And where that has no
  // end, a plug-in that hangs must be named nevertheless.
  constexpr Deadline::Milliseconds kLongestStart = std::chrono::minutes(1);
  const auto limit = std::min<Deadline::Milliseconds>(settings.init_timeout() / 2, kLongestStart);
  const auto future = Begin(file, Deadline::After(limit / 2));
  if (future.wait_for(limit) != std::future_status::ready) {
    Throw(tuttiInvalidUsage, "net plug-in {}: it has not been initialised within {} ms (half of TUTTI_INIT_TIMEOUT_MS, or a "
          "minute)",
          file, limit.count());
  }
  const auto& outcome = future.get();
  if (outcome.library == nullptr) Throw(tuttiInvalidUsage, "{}", outcome.why);
  outcome.library->control().Start();
  outcome.library->CloseFinished();
  return outcome.library;
}

}  // namespace tutti::plugin
