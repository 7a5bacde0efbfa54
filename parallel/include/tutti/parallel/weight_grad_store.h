// Defers the gradients of weights, so that linear layers do a backward in two parts, as zero-bubble schedules need (Qi
// et al. 2023, "Zero Bubble Pipeline Parallelism"; the name is that of the paper's own implementation).
//
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::parallel {

class TUTTI_API WeightGradStore {
 public:
  using Gradient = std::function<void()>;

  // While deferring, the layers that were given this store put the gradients of their weights and biases here instead
  // of adding to them. Their input must not change until the gradients are called; the rest is copied.
  void defer(bool on) { deferring_ = on; }
  bool deferring() const { return deferring_; }

  void put(Gradient gradient) { waiting_.push_back(std::move(gradient)); }
  // Calls it at once, or puts it here while deferring.
  void call(Gradient gradient) {
    if (deferring_) return put(std::move(gradient));
    gradient();
  }
  // Returns the gradients put here since the last call; call them in that order.
  std::vector<Gradient> take() { return std::exchange(waiting_, {}); }

 private:
  bool deferring_ = false;
  std::vector<Gradient> waiting_;
};

}  // namespace tutti::parallel
