#include "interop/jax/communicator.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

namespace tutti::jax {
namespace {

// A device's place in a list.
using Place = std::pair<Devices, int>;

// What a process has: the library keeps it for MPI's calls, which pass no context. Guarded by `mutex`.
struct Process {
  std::mutex mutex;
  tuttiJaxMeeting_t meeting{};
  int number = 0;  // of MPI_Init
  std::map<Handle, std::unique_ptr<Communicator>> communicators;
  std::set<Place> taken;  // of the living communicators, and those being made
};
Process& ThisProcess() {
  static auto* const process = new Process;  // lives on: XLA may free communicators while the process ends
  return *process;
}

tuttiJaxMeeting_t Meeting() {
  auto& process = ThisProcess();
  const std::lock_guard lock(process.mutex);
  return process.meeting;
}
int JobNumber() {
  auto& process = ThisProcess();
  const std::lock_guard lock(process.mutex);
  return process.number;
}

constexpr std::size_t kLongestReason = 1024;  // MPI_MAX_ERROR_STRING of the ABI: more would not reach JAX

std::string NameOf(const Devices& devices) {
  constexpr std::size_t kShown = 4;
  if (devices.size() <= kShown) return fmt::format("devices {}", fmt::join(devices, ", "));
  return fmt::format("{} devices from {} on", devices.size(), devices.front());
}

// The place among its devices that the calling thread asks a communicator for, which is then taken. Throws Unknown.
struct Unknown : std::runtime_error {
  using std::runtime_error::runtime_error;
};
Place TakePlace(const tuttiJaxMeeting_t& meeting, int color, int key, const void* frame, const void* caller) {
  auto found = DevicesOnStack(frame, caller, [&](const Devices& devices) {
    if (devices.front() != color || static_cast<std::size_t>(key) >= devices.size()) return false;
    if (std::set<Device>(devices.begin(), devices.end()).size() != devices.size()) return false;
    return meeting.is_here(devices[static_cast<std::size_t>(key)]) != 0;
  });
  auto& process = ThisProcess();
  const std::lock_guard lock(process.mutex);
  // XLA asks once for each place. A list that a finished call has left on the stack is of a communicator that this process has
  // already: every local device had come before that call could return.
  std::erase_if(found, [&](const Devices& devices) { return process.taken.contains({devices, key}); });
  if (found.size() != 1) {
    throw Unknown(fmt::format(
        "cannot tell which devices the communicator of device {} has that XLA asks for as its rank {}: {} lists are on "
        "the stack. This jaxlib may be one that Tutti does not know; docs/jax.md names those that were tested",
        color, key, found.size()));
  }
  Place place{*found.begin(), key};
  process.taken.insert(place);
  return place;
}

}  // namespace

Communicator::Communicator(Devices devices, int rank)
    : devices_(std::move(devices)), rank_(rank), size_(static_cast<int>(devices_.size())) {
  const auto meeting = Meeting();
  tuttiUniqueId id{};
  char why[kLongestReason] = "";
  if (meeting.meet(JobNumber(), devices_.data(), size_, rank_, id.internal, why, sizeof why) != 0) {
    failure_ = fmt::format("{}: {}", NameOf(devices_), why);
    return;
  }
  const auto name = NameOf(devices_);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.name = name.c_str();
  config.device = TUTTI_DEVICE_NONE;
  config.initTimeoutMs = meeting.init_timeout_ms;
  if (tuttiCommInitRankConfig(&tutti_, size_, id, rank_, &config) == tuttiSuccess) return;
  failure_ = tuttiGetLastError(nullptr);
  tutti_ = nullptr;
}

// A destructor cannot report failures, and these leave nothing behind.
Communicator::~Communicator() {
  if (tutti_ != nullptr) static_cast<void>(tuttiCommDestroy(tutti_));
}

void BeginJob() {
  auto& process = ThisProcess();
  const std::lock_guard lock(process.mutex);
  ++process.number;
}

int WorldRank() { return Meeting().process; }
int WorldSize() { return Meeting().processes; }

Handle Split(int color, int key, const void* frame, const void* caller) {
  auto& process = ThisProcess();
  std::unique_ptr<Communicator> made;
  const auto meeting = Meeting();
  if (meeting.meet == nullptr) {
    made = std::make_unique<Communicator>(
        "the package tutti of Python has not been asked for: JAX finds it by its entry point in the group jax_plugins");
  } else {
    try {
      auto [devices, rank] = TakePlace(meeting, color, key, frame, caller);
      made = std::make_unique<Communicator>(std::move(devices), rank);
    } catch (const Unknown& unknown) {
      made = std::make_unique<Communicator>(unknown.what());
    }
  }
  const auto handle = reinterpret_cast<Handle>(made.get());
  const std::lock_guard lock(process.mutex);
  process.communicators.emplace(handle, std::move(made));
  return handle;
}

void Free(Handle communicator) {
  auto& process = ThisProcess();
  std::unique_ptr<Communicator> freed;  // without the lock: it may wait for calls of other threads
  const std::lock_guard lock(process.mutex);
  const auto found = process.communicators.find(communicator);
  if (found == process.communicators.end()) return;
  freed = std::move(found->second);
  process.communicators.erase(found);
  process.taken.erase({freed->devices(), freed->rank()});
}

extern "C" void tuttiJaxMeetBy(const tuttiJaxMeeting_t* meeting) {
  auto& process = ThisProcess();
  const std::lock_guard lock(process.mutex);
  process.meeting = *meeting;
}

}  // namespace tutti::jax
