// Shared by the dispatcher's tests.
#pragma once

#include <utility>

#include "parallel/testing.h"
#include "tutti/parallel/host_compute.h"
#include "tutti/parallel/process_group.h"
#include "tutti/parallel/router.h"

namespace tutti::parallel {

inline constexpr std::size_t kExperts = 12, kHidden = 5;

enum class Load { random, all_to_the_first, some_ranks_without_tokens };

// A rank's tokens and their routing, which every rank can make for every other.
struct Batch {
  Batch(Compute& compute, std::size_t rank, std::size_t topk, Load load)
      : count(load == Load::some_ranks_without_tokens && rank % 2 == 0 ? 0 : 7 + 3 * rank),
        tokens(RandomFloats(count * kHidden, 10 + static_cast<unsigned>(rank))),
        grad_output(RandomFloats(count * kHidden, 20 + static_cast<unsigned>(rank))) {
    auto logits = RandomFloats(count * kExperts, 30 + static_cast<unsigned>(rank));
    for (std::size_t i = 0; load == Load::all_to_the_first && i < logits.size(); ++i) {
      logits[i] -= 5 * static_cast<float>(i % kExperts);
    }
    TopKRouter router(compute, {.num_experts = kExperts, .topk = topk});
    routing = router.forward(Tensor(logits.data(), {count, kExperts}));
  }
  Tensor input() { return Tensor(tokens.data(), {count, kHidden}); }
  Tensor grad() { return Tensor(grad_output.data(), {count, kHidden}); }

  std::size_t count;
  std::vector<float> tokens, grad_output;
  Routing routing;
};

// Bytes that this rank has sent by the group since the last call.
class BytesOf {
 public:
  explicit BytesOf(ProcessGroup& group) : group_(group), before_(group.bytes_sent()) {}
  std::uint64_t since() { return group_.bytes_sent() - std::exchange(before_, group_.bytes_sent()); }

 private:
  ProcessGroup& group_;
  std::uint64_t before_;
};

}  // namespace tutti::parallel
