#include "testing/fake_gpu/runtime/refusals.h"

#include <cstdio>
#include <mutex>
#include <set>

#include "testing/fake_gpu/runtime/call.h"

namespace tutti::fake_gpu {
namespace {

struct Refusal {
  cudaError_t error;
  const char* text;
};

thread_local Refusal last_refusal = {cudaSuccess, nullptr};

// Texts are kept for ever, because programs keep what cudaGetErrorString returned.
const char* Said(const std::string& text) {
  static std::mutex mutex;
  static auto* texts = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  const auto [place, first] = texts->insert(text);
  if (first) std::fprintf(stderr, "%s\n", text.c_str());
  return place->c_str();
}

}  // namespace

cudaError_t Refuse(cudaError_t error, const std::string& text) {
  last_refusal = {error, Said(text)};
  return Remember(error);
}

const char* RefusalText(cudaError_t error) { return last_refusal.error == error ? last_refusal.text : nullptr; }

}  // namespace tutti::fake_gpu
