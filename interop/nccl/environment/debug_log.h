// NCCL's log: NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE, with lines in NCCL's shape,
// "host:process:thread [device] NCCL INFO text". Each line is one write(). What a terminal would obey is escaped.
//
// Thread-safety: any thread.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace tutti::nccl {

// The numbers are those of NCCL's ABI, which plug-ins use.
enum class Level { none, version, warn, info, abort, trace };
namespace subsystem {
inline constexpr std::uint64_t kInit = 1, kColl = 2, kP2p = 4, kShm = 8, kNet = 16, kGraph = 32, kTuning = 64,
                               kEnv = 128, kAlloc = 256, kCall = 512, kProxy = 1024, kNvls = 2048, kBootstrap = 4096,
                               kReg = 8192, kProfile = 16384, kRas = 32768, kDestroy = 65536, kAllocHost = 131072,
                               kAll = ~std::uint64_t{0};
}  // namespace subsystem

// "INIT,COLL", "^GRAPH": NCCL_DEBUG_SUBSYS. Unknown words have no meaning, as in NCCL.
std::uint64_t ParseSubsystems(std::string_view text);
// By its name; an unknown one is `none`.
Level ParseLevel(std::string_view text);
// NCCL_DEBUG_FILE with its %h, %p and %% replaced.
std::string ExpandFileName(std::string_view name, std::string_view host, int process);

class DebugLog {
 public:
  // The process's.
  static DebugLog& Get();
  // Reads the environment again at the next line (ncclResetDebugInit).
  void Reset();

  // Every call asks, so it costs a load and a comparison.
  static bool Enabled(Level level, std::uint64_t flags) {
    const std::uint64_t state = state_.load(std::memory_order_acquire);
    return state == kUnread ? Get().EnabledSlowly(level, flags) : Shows(state, level, flags);
  }
  void Write(Level level, std::string_view text);

  template <typename... Arguments>
  void Info(std::uint64_t flags, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    if (Enabled(Level::info, flags)) Write(Level::info, fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  // For callers that must not throw: without memory for the line there is none.
  void Warn(std::string_view text) noexcept;

  // The CUDA device that lines of this thread name from now on.
  static void UseDevice(int device);

 private:
  // The level in the highest bits, and the subsystems.
  static constexpr std::uint64_t kUnread = ~std::uint64_t{0};
  static constexpr int kLevelShift = 56;
  static bool Shows(std::uint64_t state, Level level, std::uint64_t flags) {
    const auto most = static_cast<Level>(state >> kLevelShift);
    return level <= most && (flags & state & ((std::uint64_t{1} << kLevelShift) - 1)) != 0;
  }
  bool EnabledSlowly(Level level, std::uint64_t flags);
  void Read();
  void OpenFile(const std::string& path);
  // REQUIRES: mutex_ is held.
  void Put(Level level, std::string_view text);

  inline static constinit std::atomic<std::uint64_t> state_{kUnread};  // the process has one log
  std::mutex mutex_;                                                   // guards the rest
  int file_ = -1;                                                      // a descriptor; -1: stdout
  std::string host_;
};

}  // namespace tutti::nccl
