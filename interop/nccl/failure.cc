#include "interop/nccl/failure.h"

#include <mutex>

#include "base/plain_text.h"
#include "interop/nccl/convert.h"
#include "interop/nccl/environment/debug_log.h"
#include "interop/nccl/environment/environment.h"
#include "interop/nccl/environment/words.h"
#include "interop/nccl/version.h"

namespace tutti::nccl {
namespace {

struct LastRefusal {
  bool is_last = false;  // no failure of Tutti's came after
  ncclComm_t comm = nullptr;
  std::string text;
};

LastRefusal& ThisThreads() {
  thread_local LastRefusal refusal;
  return refusal;
}

// The last failure of the process: a watchdog may find what another thread asks for.
class LastOfAll {
 public:
  void Keep(std::string_view text) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      text_ = text;
    } catch (const std::exception&) {
      text_.clear();
    }
  }
  std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

LastOfAll& AnyThreads() {
  static auto* const last = new LastOfAll;  // never destroyed: threads may fail while the process exits
  return *last;
}

// NCCL has a code for timeouts since 2.30. Older programs take this one to mean that the awaited peer is gone.
ncclResult_t Timeout() {
  constexpr auto kTimeout = static_cast<ncclResult_t>(8);
  return VersionOrDefault() >= NCCL_VERSION(2, 30, 0) ? kTimeout : ncclRemoteError;
}

// In the words of this interface. Valid until this thread asks again.
const char* LastOfTutti(ncclComm_t comm) noexcept {
  const char* const text = tuttiGetLastError(ToTutti(comm));
  if (*text == '\0') return text;
  thread_local std::string translated;
  try {
    translated = InNcclsWords(text, Environment::OfThisProcess());
    return translated.c_str();
  } catch (const std::exception&) {
    return text;  // no memory for other words
  }
}

}  // namespace

ncclResult_t FromTutti(tuttiResult_t result) noexcept {
  if (result == tuttiSuccess || result == tuttiInProgress) return static_cast<ncclResult_t>(result);
  ThisThreads().is_last = false;
  const char* const text = LastOfTutti(nullptr);
  AnyThreads().Keep(text);
  DebugLog::Get().Warn(text);
  return CodeOf(result);
}

ncclResult_t CodeOf(tuttiResult_t result) noexcept {
  return result == tuttiTimeoutError ? Timeout() : static_cast<ncclResult_t>(result);
}

ncclResult_t Remember(ncclComm_t comm, ncclResult_t code, std::string_view text) noexcept {
  DebugLog::Get().Warn(text);
  auto& last = ThisThreads();
  last.is_last = true;
  last.comm = comm;
  try {
    last.text = Printable(text);
  } catch (const std::exception&) {
    last.text.clear();  // no memory for a message; return the code alone
  }
  AnyThreads().Keep(last.text);
  return code;
}

const char* LastFailure(ncclComm_t comm) noexcept {
  const auto& last = ThisThreads();
  if (last.is_last && (comm == nullptr || comm == last.comm)) return last.text.c_str();
  const char* const text = LastOfTutti(comm);
  if (comm != nullptr || *text != '\0') return text;
  thread_local std::string of_another;
  try {
    of_another = AnyThreads().text();
  } catch (const std::exception&) {
    return "";
  }
  return of_another.c_str();
}

}  // namespace tutti::nccl
