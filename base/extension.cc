#include "base/extension.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"

namespace tutti {
namespace {

// Without hooks, and while one thread writes them, every other thread sees `none`.
struct Register {
  std::atomic<bool> taken{false};
  std::atomic<bool> ready{false};
  tuttiExtension_t hooks{};
  tuttiExtension_t none{};
};
constinit Register the_register;

}  // namespace

const tuttiExtension_t& TheExtension() {
  return the_register.ready.load(std::memory_order_acquire) ? the_register.hooks : the_register.none;
}

void RegisterExtension(const tuttiExtension_t& given) {
  if (given.size < sizeof given.size) Throw(tuttiInvalidArgument, "extension.size is {}", given.size);
  if (the_register.taken.exchange(true)) Throw(tuttiInvalidUsage, "an extension is registered already");
  std::memcpy(&the_register.hooks, &given, std::min(given.size, sizeof given));
  auto& hooks = the_register.hooks;
  if (hooks.openTuner == nullptr || hooks.closeTuner == nullptr || hooks.choose == nullptr) hooks.tuner = nullptr;
  if (hooks.unobserve == nullptr || hooks.callBegins == nullptr || hooks.callReturns == nullptr ||
      hooks.operationBegins == nullptr || hooks.operationEnds == nullptr || hooks.callForgotten == nullptr) {
    hooks.observe = nullptr;
  }
  the_register.ready.store(true, std::memory_order_release);
}

void ThrowReason(tuttiResult_t result, const char* why) { Throw(result, "{}", why); }

}  // namespace tutti
