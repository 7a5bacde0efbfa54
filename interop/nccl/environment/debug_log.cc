#include "interop/nccl/environment/debug_log.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <optional>

#include "base/files/files.h"
#include "base/plain_text.h"
#include "interop/nccl/environment/environment.h"

namespace tutti::nccl {
namespace {

constexpr std::uint64_t kUsual = subsystem::kInit | subsystem::kBootstrap | subsystem::kEnv;

struct Name {
  std::string_view word;
  std::uint64_t value;
};
constexpr Name kSubsystems[] = {{"INIT", subsystem::kInit},
                                {"COLL", subsystem::kColl},
                                {"P2P", subsystem::kP2p},
                                {"SHM", subsystem::kShm},
                                {"NET", subsystem::kNet},
                                {"GRAPH", subsystem::kGraph},
                                {"TUNING", subsystem::kTuning},
                                {"ENV", subsystem::kEnv},
                                {"ALLOC", subsystem::kAlloc},
                                {"CALL", subsystem::kCall},
                                {"PROXY", subsystem::kProxy},
                                {"NVLS", subsystem::kNvls},
                                {"BOOTSTRAP", subsystem::kBootstrap},
                                {"REG", subsystem::kReg},
                                {"PROFILE", subsystem::kProfile},
                                {"RAS", subsystem::kRas},
                                {"DESTROY", subsystem::kDestroy},
                                {"ALLOC_HOST", subsystem::kAllocHost},
                                {"ALL", subsystem::kAll}};
constexpr Name kLevels[] = {{"VERSION", 1}, {"WARN", 2}, {"INFO", 3}, {"ABORT", 4}, {"TRACE", 5}};

template <std::size_t N>
std::optional<std::uint64_t> Find(const Name (&names)[N], std::string_view word) {
  for (const auto& name : names) {
    if (name.word.size() == word.size() && strncasecmp(name.word.data(), word.data(), word.size()) == 0)
      return name.value;
  }
  return std::nullopt;
}

int& DeviceOfThread() {
  thread_local int device = 0;
  return device;
}

}  // namespace

std::uint64_t ParseSubsystems(std::string_view text) {
  const bool without = text.starts_with('^');
  if (without) text.remove_prefix(1);
  std::uint64_t named = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    named |= Find(kSubsystems, text.substr(begin, end - begin)).value_or(0);
    begin = end + 1;
  }
  return without ? ~named : named;
}

Level ParseLevel(std::string_view text) { return static_cast<Level>(Find(kLevels, text).value_or(0)); }

std::string ExpandFileName(std::string_view name, std::string_view host, int process) {
  std::string expanded;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%' || i + 1 == name.size()) {
      expanded += name[i];
      continue;
    }
    const char what = name[++i];
    if (what == '%')
      expanded += '%';
    else if (what == 'h')
      expanded += host;
    else if (what == 'p')
      expanded += std::to_string(process);
    else
      (expanded += '%') += what;
  }
  return expanded;
}

DebugLog& DebugLog::Get() {
  static auto* const log = new DebugLog;  // never destroyed: communicators may be used while the process exits
  return *log;
}

void DebugLog::Reset() { state_.store(kUnread, std::memory_order_release); }

bool DebugLog::EnabledSlowly(Level level, std::uint64_t flags) {
  const std::lock_guard lock(mutex_);
  if (state_.load(std::memory_order_relaxed) == kUnread) Read();
  return Shows(state_.load(std::memory_order_relaxed), level, flags);
}

void DebugLog::Read() {
  const auto& environment = Environment::OfThisProcess();
  // After a reset these may have changed; the rest of the environment has had its effect.
  const auto value = [&](const char* name) -> std::optional<std::string> {
    const char* const text = std::getenv(name);
    return text != nullptr ? std::optional<std::string>(text) : environment.Value(name);
  };
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  host_ = host.data();
  host_ = host_.substr(0, host_.find('.'));
  std::ranges::replace(host_, '/', '-');
  std::ranges::replace(host_, '%', '-');
  const Level level = ParseLevel(value("NCCL_DEBUG").value_or(""));
  const auto subsystems = value("NCCL_DEBUG_SUBSYS");
  const std::uint64_t flags = subsystems && !subsystems->empty() ? ParseSubsystems(*subsystems) : kUsual;
  if (file_ >= 0) close(file_);
  file_ = -1;
  if (const auto name = value("NCCL_DEBUG_FILE"); name && !name->empty() && level > Level::version) {
    OpenFile(ExpandFileName(*name, host_, getpid()));
  }
  constexpr std::uint64_t kFlags = (std::uint64_t{1} << kLevelShift) - 1;
  state_.store(static_cast<std::uint64_t>(level) << kLevelShift | (flags & kFlags), std::memory_order_release);
}

// A file that cannot be opened leaves the log where it is, as in NCCL, but with the reason.
void DebugLog::OpenFile(const std::string& path) {
  try {
    file_ = OpenForLines(path);
  } catch (const std::exception& problem) {
    Put(Level::warn, fmt::format("NCCL_DEBUG_FILE: {}", problem.what()));
  }
}

void DebugLog::Write(Level level, std::string_view text) {
  const std::lock_guard lock(mutex_);
  Put(level, text);
}

void DebugLog::Put(Level level, std::string_view text) {
  constexpr std::size_t kMaxLine = 64 * 1024;
  std::string line;
  if (level == Level::version) {
    line = fmt::format("{}\n", text);
  } else {
    const char* const word = level == Level::warn ? "WARN" : level == Level::info ? "INFO" : "TRACE";
    line = fmt::format("{}{}:{}:{} [{}] NCCL {} {}\n", level == Level::warn ? "\n" : "", Printable(host_), getpid(),
                       syscall(SYS_gettid), DeviceOfThread(), word, Printable(text, kMaxLine));
  }
  // A failed diagnostic has nowhere to be reported.
  [[maybe_unused]] const auto written = write(file_ >= 0 ? file_ : STDOUT_FILENO, line.data(), line.size());
}

void DebugLog::Warn(std::string_view text) noexcept {
  try {
    if (Enabled(Level::warn, subsystem::kAll)) Write(Level::warn, text);
  } catch (const std::exception&) {
  }
}

void DebugLog::UseDevice(int device) { DeviceOfThread() = std::max(0, device); }

}  // namespace tutti::nccl
