#include "testing/fake_gpu/call.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace tutti::fake_gpu {
namespace {

std::atomic<bool> initialized{false};
std::atomic<bool> lost{false};
thread_local bool in_host_function = false;

// A forked child has none of the streams' threads. The real driver does not survive a fork either.
void ForgetInChild() { initialized = false; }

}  // namespace

void RequireUsable() {
  Require(initialized, CUDA_ERROR_NOT_INITIALIZED);
  Require(!in_host_function, CUDA_ERROR_NOT_PERMITTED);
  Require(!lost, CUDA_ERROR_ILLEGAL_ADDRESS);
}

void LoseContext() { lost = true; }

void SetInitialized() {
  static std::once_flag once;
  std::call_once(once, [] {
    initialized = true;
    pthread_atfork(nullptr, nullptr, ForgetInChild);
  });
  Require(initialized, CUDA_ERROR_NOT_INITIALIZED);
}

InHostFunction::InHostFunction() { in_host_function = true; }
InHostFunction::~InHostFunction() { in_host_function = false; }

}  // namespace tutti::fake_gpu
