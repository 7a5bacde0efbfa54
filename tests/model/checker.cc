#include "tests/model/checker.h"

#include <stdexcept>
#include <unordered_set>

#include "tests/model/execution.h"

namespace tutti::model {
namespace {

// Tries all choices, the last one first, and backtracks at states that it has seen.
class DepthFirst final : public Guide {
 public:
  explicit DepthFirst(bool forgets) : forgets_(forgets) {}

  int Choose(int count) override {
    if (count <= 1) return 0;
    if (depth_ == path_.size()) path_.push_back({0, static_cast<std::uint8_t>(count)});
    return path_[depth_++].taken;
  }
  bool IsNew(const Hash& state) override {
    // The states up to the first new choice were seen on an earlier path.
    return forgets_ || depth_ < path_.size() || states_.insert(state).second;
  }
  // Returns false if there is no other path.
  bool Next() {
    while (!path_.empty() && path_.back().taken + 1 == path_.back().count) path_.pop_back();
    depth_ = 0;
    if (path_.empty()) return false;
    ++path_.back().taken;
    return true;
  }
  void Restart() {
    path_.clear();
    states_.clear();
    depth_ = 0;
  }
  std::size_t states() const { return states_.size(); }

 private:
  struct Step {
    std::uint8_t taken, count;
  };
  struct Low {
    std::size_t operator()(const Hash& hash) const { return hash.low; }
  };
  bool forgets_;
  std::vector<Step> path_;
  std::size_t depth_ = 0;
  std::unordered_set<Hash, Low> states_;
};

}  // namespace

Result Explore(const MakeProgram& make, const Options& options) {
  DepthFirst guide(options.naive);
  Execution execution(guide);
  Result result;
  bool published = false;
  bool more = true;
  while (more) {
    ++result.executions;
    Execution::End end = Execution::End::failed;
    try {
      end = execution.Run(make, options);
    } catch (const std::exception& exception) {
      result.failure = exception.what();
      break;
    }
    if (end == Execution::End::failed) {
      result.failure = execution.failure();
      break;
    }
    if (end == Execution::End::finished) ++result.finished;
    if (result.executions == options.most_executions) {
      result.failure = "there are more executions than most_executions";
      break;
    }
    if (execution.membarrier_seen() != published) {
      // From now on stores are no longer done early, so the exploration restarts.
      published = true;
      guide.Restart();
      result = Result{};
    } else {
      more = guide.Next();
    }
  }
  result.states = guide.states();
  return result;
}

namespace {

// Wraps a model's calls of the checker.
template <typename Do>
auto Within(Do&& call) {
  auto& execution = *Running();
  const Entry entry(execution);
  return call(execution);
}

}  // namespace

void Name(const volatile void* begin, std::size_t bytes, const char* name) {
  Within([&](Execution& execution) { execution.Name(begin, bytes, name); });
}

void Weaken(const volatile void* begin, std::size_t bytes, Operation operation, std::memory_order order) {
  Within([&](Execution& execution) { execution.Weaken({begin, bytes, operation, order}); });
}

void Require(bool holds, const char* what) {
  if (!holds) Within([&](Execution& execution) { execution.Fail(what); });
}

void Spin() {
  Within([](Execution& execution) { execution.Spin(); });
}

void BeginAwait() {
  Within([](Execution& execution) { execution.BeginAwait(); });
}

void AwaitOnce() {
  Within([](Execution& execution) { execution.AwaitOnce(); });
}

void EndAwait() {
  Within([](Execution& execution) { execution.EndAwait(); });
}

void StreamStore(std::uint32_t* to, std::uint32_t value) {
  Within([&](Execution& execution) { execution.Touch(to, sizeof *to, Access::streamed); });
  *to = value;
}

void StreamFence() {
  Within([](Execution& execution) { execution.StreamFence(); });
}

void Membarrier() {
  Within([](Execution& execution) { execution.Membarrier(); });
}

int NewBell() {
  return Within([](Execution& execution) { return execution.NewBell(); });
}

void RingFromOutside(int bell) {
  Within([bell](Execution& execution) { execution.RingBell(bell); });
}

}  // namespace tutti::model
