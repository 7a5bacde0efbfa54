#include "interop/nccl/failure.h"

#include "interop/nccl/convert.h"
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

// NCCL has a code for timeouts since 2.30. Older programs take this one to mean that the awaited peer is gone.
ncclResult_t Timeout() {
  constexpr auto kTimeout = static_cast<ncclResult_t>(8);
  return VersionOrDefault() >= NCCL_VERSION(2, 30, 0) ? kTimeout : ncclRemoteError;
}

}  // namespace

ncclResult_t FromTutti(tuttiResult_t result) noexcept {
  if (result == tuttiSuccess || result == tuttiInProgress) return static_cast<ncclResult_t>(result);
  ThisThreads().is_last = false;
  return CodeOf(result);
}

ncclResult_t CodeOf(tuttiResult_t result) noexcept {
  return result == tuttiTimeoutError ? Timeout() : static_cast<ncclResult_t>(result);
}

ncclResult_t Remember(ncclComm_t comm, ncclResult_t code, std::string_view text) noexcept {
  auto& last = ThisThreads();
  last.is_last = true;
  last.comm = comm;
  try {
    last.text = text;
  } catch (const std::exception&) {
    last.text.clear();  // no memory for a message; return the code alone
  }
  return code;
}

const char* LastFailure(ncclComm_t comm) noexcept {
  const auto& last = ThisThreads();
  if (last.is_last && (comm == nullptr || comm == last.comm)) return last.text.c_str();
  return tuttiGetLastError(ToTutti(comm));
}

}  // namespace tutti::nccl
