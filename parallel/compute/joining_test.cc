// Computing that throws while messages are under way: no memory that they use is freed before they have ended, no rank
// waits for what will not come, and every rank left behind gets an Error.
//
// Rank 1's computing throws. The others start only when it is about to, so what it has begun cannot end before.
#include "parallel/compute/joining.h"

#include <chrono>
#include <csignal>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "parallel/context/attention_testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/data_parallel.h"
#include "tutti/parallel/pipeline.h"
#include "tutti/parallel/ring_attention.h"
#include "tutti/parallel/tensor_parallel.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunOptions;
using tutti::testing::RunRanks;

// An error that an application's kernels may raise.
struct OutOfMemory : std::runtime_error {
  OutOfMemory() : std::runtime_error("out of memory") {}
};

bool IsIdle(tuttiStream_t stream) { return tuttiStreamQuery(stream) != tuttiInProgress; }

// Checks that memory is freed only while no communication is under way.
class Observed final : public HostCompute {
 public:
  using HostCompute::HostCompute;
  void release(void* memory) noexcept override {
    EXPECT_TRUE(IsIdle(communication_stream())) << "memory was freed beneath a message";
    ++released_;
    HostCompute::release(memory);
  }
  int released() const { return released_; }

 private:
  int released_ = 0;
};

class Comrades {
 public:
  explicit Comrades(Rank& self) : self_(self) {}
  // For rank 1, right before it throws.
  void tell() { ++self_.board().numbers[0]; }
  // For the others, before they begin.
  void await() {
    constexpr std::chrono::milliseconds kTimeForMistakes{50};  // in which rank 1 would free its memory
    while (self_.board().numbers[0] == 0) std::this_thread::yield();
    std::this_thread::sleep_for(kTimeForMistakes);
  }

 private:
  Rank& self_;
};

// A first call may need no more than what rank 1 had sent before it threw.
void ExpectTold(const std::function<void()>& call) {
  const auto twice = [&] {
    call();
    call();
  };
  EXPECT_TRUE(Throws(twice, tuttiRemoteError, {"rank 1", "revoked"}));
}

void AsProcessesAndThreads(int ranks, const std::function<void(Rank&)>& body) {
  for (const bool threads : {false, true}) RunRanks(ranks, body, RunOptions{.threads = threads});
}

enum class Call { attend, attend_delta, attend_backward };

// Each call may throw.
class Failing final : public AttentionCompute {
 public:
  Failing(HostCompute& compute, std::function<void(Call)> at_each) : on_(compute), at_each_(std::move(at_each)) {}
  Compute& compute() override { return on_.compute(); }
  void attend(const AttentionInputs& inputs, const SoftmaxState& state) override {
    at_each_(Call::attend);
    on_.attend(inputs, state);
  }
  void finish(const SoftmaxState& state, const HeadRows& out) override { on_.finish(state, out); }
  void attend_delta(const HeadRows& out, const HeadRows& grad_out, const HeadRows& delta) override {
    at_each_(Call::attend_delta);
    on_.attend_delta(out, grad_out, delta);
  }
  void attend_backward(const AttentionInputs& inputs, const HeadRows& grad_out, const HeadRows& lse,
                       const HeadRows& delta, const HeadRows& grad_q, const HeadRows& grad_k,
                       const HeadRows& grad_v) override {
    at_each_(Call::attend_backward);
    on_.attend_backward(inputs, grad_out, lse, delta, grad_q, grad_k, grad_v);
  }

 private:
  ElementwiseAttention<HostCompute> on_;
  std::function<void(Call)> at_each_;
};

std::string NameOf(const ::testing::TestParamInfo<Call>& info) {
  switch (info.param) {
    case Call::attend: return "attend";
    case Call::attend_delta: return "attend_delta";
    default: return "attend_backward";
  }
}
class RingThatFails : public ::testing::TestWithParam<Call> {};
INSTANTIATE_TEST_SUITE_P(In, RingThatFails, ::testing::Values(Call::attend, Call::attend_delta, Call::attend_backward),
                         NameOf);

TEST_P(RingThatFails, FreesNothingBeneathMessages) {
  AsProcessesAndThreads(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    Observed compute;
    Comrades others(self);
    bool fails = false;
    Failing on(compute, [&](Call call) {
      if (!fails || call != GetParam()) return;
      others.tell();
      throw OutOfMemory();
    });
    Values qkv = Values::Random({8, 2, 3, 3, 5}, 1), grad_qkv(qkv.shape);
    Values out({8, 2, 3, 5}), grad_out(out.shape), lse({8, 2, 3, 1});
    RingAttention ring(group, on, SequencePlacement::zigzag, {0, 8 * 3}, {.causal = true});
    const auto pass = [&] {
      if (GetParam() == Call::attend) return ring.forward(qkv, out, lse);
      ring.backward(qkv, out, lse, grad_out, grad_qkv);
    };
    ring.forward(qkv, out, lse);  // nothing fails yet, and connections are made
    self.Meet();
    if (self.rank() == 1) {
      fails = true;
      const int before = compute.released();
      EXPECT_THROW(pass(), OutOfMemory);
      // Statistics and, if messages were under way, the keys and values that were here and those that arrived.
      EXPECT_GE(compute.released(), before + (GetParam() == Call::attend_delta ? 1 : 3));
    } else {
      others.await();
      ExpectTold(pass);
    }
    self.Meet();
  });
}

// Each rank fails in another step, so none has begun what the next one waits for.
TEST(RingAttentionThatFails, OnAllRanksWaitsForNone) {
  AsProcessesAndThreads(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    Observed compute;
    int blocks = 0;
    Failing on(compute, [&](Call) {
      if (blocks++ == self.rank()) throw OutOfMemory();
    });
    Values qkv = Values::Random({8, 2, 3, 3, 5}, 1), out({8, 2, 3, 5}), lse({8, 2, 3, 1});
    RingAttention ring(group, on, SequencePlacement::zigzag, {0, 8 * 3}, {.causal = true});
    EXPECT_ANY_THROW(ring.forward(qkv, out, lse));  // its own, or one that another rank has thrown before
    self.Meet();
  });
}

TEST(ColumnParallelLinearThatFails, FreesNothingBeneathMessages) {
  for (const bool sequence_parallel : {false, true}) {
    AsProcessesAndThreads(2, [=](Rank& self) {
      const auto comm = self.Join();
      ProcessGroup group(comm);
      Comrades others(self);
      // The weight's gradient is the product of a transposed matrix, and overlaps with the reduction.
      HostCompute plain;
      const auto multiply = [&](Transposed a_transposed, Transposed b_transposed, std::size_t m, std::size_t n,
                                std::size_t k, const float* a, const float* b, float* c, bool accumulate) {
        if (a_transposed == Transposed::yes && self.rank() == 1) {
          others.tell();
          throw OutOfMemory();
        }
        if (a_transposed == Transposed::no && self.rank() != 1) others.await();  // the input's gradient
        const auto tensor = [](const float* data, std::size_t rows, std::size_t columns, Transposed transposed) {
          const bool is_transposed = transposed == Transposed::yes;
          return Tensor(const_cast<float*>(data), {is_transposed ? columns : rows, is_transposed ? rows : columns});
        };
        plain.matmul(a_transposed, tensor(a, m, k, a_transposed), b_transposed, tensor(b, k, n, b_transposed),
                     Tensor(c, {m, n}), accumulate);
      };
      Observed compute(multiply);
      constexpr std::size_t kInputs = 6, kOutputs = 4, kRows = 4;
      Values weight({kOutputs / 2, kInputs}), grad_weight(weight.shape);
      ColumnParallelLinear layer({group, compute}, kInputs, kOutputs, {weight, {}, grad_weight, {}},
                                 {.sequence_parallel = sequence_parallel});
      Values input({sequence_parallel ? kRows / 2 : kRows, kInputs}), grad_input(input.shape);
      Values grad_output({kRows, kOutputs / 2});
      const auto backward = [&] { layer.backward(input, grad_output, grad_input); };
      if (self.rank() == 1) {
        EXPECT_THROW(backward(), OutOfMemory);
      } else {
        ExpectTold(backward);
      }
      self.Meet();
    });
  }
}

// The rank that computes throws, and frees the gradients. The others have begun the same, so it waits for that.
TEST(DistributedDataParallelThatEnds, FreesNothingBeneathMessages) {
  AsProcessesAndThreads(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    Observed compute;
    Comrades others(self);
    Values parameter({1000});
    const auto train = [&] {
      DistributedDataParallel ddp(group, compute, {{"weight", parameter}});
      if (self.rank() != 1) others.await();
      ddp.mark_ready(0);
      if (self.rank() == 1) {
        others.tell();
        throw OutOfMemory();
      }
      ddp.finish_gradients();
    };
    if (self.rank() == 1) {
      EXPECT_THROW(train(), OutOfMemory);
    } else {
      EXPECT_NO_THROW(train());
    }
    self.Meet();
  });
}

// On a stream of the host, which runs by itself.
TEST(PipelineThatFails, FreesNothingBeneathMessages) {
  struct Stage final : PipelineStep {
    std::function<void()> in_forward;
    void forward(int /*microbatch*/, const Tensor* /*input*/, const Tensor* /*output*/) override { in_forward(); }
    void backward(int /*microbatch*/, const Tensor* /*input*/, const Tensor* /*grad_output*/,
                  const Tensor* /*grad_input*/) override {}
  };
  AsProcessesAndThreads(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    Comrades others(self);
    tuttiStream_t stream = nullptr;
    check(tuttiStreamCreate(&stream));
    const auto allocate = [&](std::size_t bytes) {
      return std::shared_ptr<void>(new char[bytes], [&](void* memory) {
        EXPECT_TRUE(IsIdle(stream)) << "memory was freed beneath a message";
        delete[] static_cast<char*>(memory);
      });
    };
    const TensorSpec between{{4, 5}, tuttiFloat32};
    Stage step;
    step.in_forward = [&] {
      if (self.rank() == 0) return others.await();
      others.tell();
      throw OutOfMemory();  // it has not waited for its input, which stage 0 has not sent
    };
    const auto run = [&] {
      const bool is_first = self.rank() == 0;
      PipelineParallel pipeline(group, is_first ? std::nullopt : std::optional(between),
                                is_first ? std::optional(between) : std::nullopt, allocate);
      pipeline.run(gpipe(2, 2), step, stream);
      check(tuttiStreamSynchronize(stream), group.comm());
    };
    if (self.rank() == 1) {
      EXPECT_THROW(run(), OutOfMemory);
    } else {
      EXPECT_TRUE(Throws(run, tuttiRemoteError, {"rank 1", "revoked"}));
    }
    check(tuttiStreamDestroy(stream));
    self.Meet();
  });
}

// A group that has failed by itself is not revoked, so that all ranks get the reason.
TEST(OverlappedCommunication, TellsWhoDied) {
  const auto body = [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    Values sum({1000});
    if (self.rank() == 2) std::raise(SIGKILL);
    const auto all_reduce = [&] {
      OverlappedCommunication reduction(compute, group);
      group.all_reduce(sum, sum, tuttiSum, reduction.fork());
      reduction.join();
    };
    EXPECT_TRUE(Throws(all_reduce, tuttiRemoteError, {"rank 2", "died"}));
  };
  RunRanks(3, body, {.may_die = {2}});
}

}  // namespace
}  // namespace tutti::parallel
