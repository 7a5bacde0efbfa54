#include "transports/shm/process_register.h"

#include <fmt/format.h>
#include <poll.h>
#include <sodium.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "net/auth/secret_key.h"

namespace tutti::shm {
namespace {

struct Entry {
  int rank;
  std::type_index type;
  std::shared_ptr<void> lent;
};

RegisterKey RandomKey() {
  auth::EnsureSodium();
  RegisterKey key;
  randombytes_buf(key.data(), key.size());
  return key;
}

struct Register {
  explicit Register(const Register* parents) : before(parents) {}

  const pid_t owner = getpid();
  const RegisterKey process = RandomKey();
  const Register* const before;  // in a forked child its parent's, so that a leak checker sees that in use
  std::mutex mutex;
  std::map<RegisterKey, Entry> entries;
  std::map<int, std::weak_ptr<const FileDescriptor>> processes;  // by number
};

// Never destroyed: threads may still fail in init while the process exits. A forked child begins its own register,
// because its parent's mutex may be locked forever.
Register& ThisProcess() {
  static std::atomic<Register*> current{nullptr};
  // acquire and release: a thread that finds the pointer finds the object behind it.
  auto* found = current.load(std::memory_order_acquire);
  while (found == nullptr || found->owner != getpid()) {
    auto fresh = std::make_unique<Register>(found);
    if (current.compare_exchange_strong(found, fresh.get(), std::memory_order_acq_rel)) found = fresh.release();
  }
  return *found;
}

// What the kernel tells about a descriptor of a process, and about no other. It reads nothing from the descriptor.
std::optional<int> NumberOf(const FileDescriptor& descriptor) {
  std::ifstream lines(fmt::format("/proc/thread-self/fdinfo/{}", descriptor.get()));
  for (std::string line; std::getline(lines, line);) {
    int number = 0;
    if (std::sscanf(line.c_str(), "Pid: %d", &number) == 1) return number;
  }
  return std::nullopt;
}

}  // namespace

RegisterKey ProcessKey() { return ThisProcess().process; }

Offer::Offer(int rank, std::type_index type, std::shared_ptr<void> lent) : key_(RandomKey()) {
  auto& registry = ThisProcess();
  const std::lock_guard lock(registry.mutex);
  registry.entries.emplace(key_, Entry{rank, type, std::move(lent)});
}

Offer::~Offer() {
  std::shared_ptr<void> last;  // destroyed after the lock is released
  auto& registry = ThisProcess();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.entries.find(key_);
  if (found == registry.entries.end()) return;  // this is a forked child's copy of an offer
  last = std::move(found->second.lent);
  registry.entries.erase(found);
}

bool IsPidfd(const FileDescriptor& descriptor) { return NumberOf(descriptor).has_value(); }

int ProcessNumber(const FileDescriptor& pidfd) { return std::max(NumberOf(pidfd).value_or(0), 0); }

bool HasEnded(int pidfd) {
  if (pidfd < 0) return false;
  pollfd entry{pidfd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

std::shared_ptr<const FileDescriptor> ShareProcess(FileDescriptor pidfd) {
  const int number = ProcessNumber(pidfd);
  auto fresh = std::make_shared<const FileDescriptor>(std::move(pidfd));
  if (number == 0) return fresh;
  auto& registry = ThisProcess();
  const std::lock_guard lock(registry.mutex);
  auto& known = registry.processes[number];
  // A moment ago the new descriptor's process had this number. A known process that has not ended by now had it then,
  // too: the two are the same.
  if (auto earlier = known.lock(); earlier != nullptr && !HasEnded(earlier->get())) return earlier;
  known = fresh;
  return fresh;
}

std::shared_ptr<void> FindOffer(const RegisterKey& key, int rank, std::type_index type) {
  auto& registry = ThisProcess();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.entries.find(key);
  if (found == registry.entries.end() || found->second.rank != rank || found->second.type != type) return nullptr;
  return found->second.lent;
}

}  // namespace tutti::shm
