// Every stage gets the errors of a pipeline.
#include <csignal>
#include <stdexcept>

#include "parallel/pipeline/pipeline_toy.h"
#include "parallel/testing.h"
#include "testing/ranks.h"

namespace tutti::parallel {
namespace {

using toy::Between;
using toy::EndsOf;
using toy::ExpectGradientsOfUnsplit;
using toy::PipelineOf;
using toy::SplitStage;
using toy::Stage;
using tutti::testing::Rank;
using tutti::testing::RunOptions;
using tutti::testing::RunRanks;

// Never called.
class NoStep : public PipelineStep {
 public:
  void forward(int, const Tensor*, const Tensor*) override { ADD_FAILURE() << "a forward was begun"; }
  void backward(int, const Tensor*, const Tensor*, const Tensor*) override { ADD_FAILURE() << "a backward was begun"; }
};

TEST(PipelineErrors, EveryRankIsToldWhatDoesNotFit) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    const int stage = self.rank();
    NoStep step;
    const TensorSpec six{{2, 3}, tuttiFloat32}, eight{{2, 4}, tuttiFloat32};
    const auto here = [&](bool is_there, const TensorSpec& spec) {
      return is_there ? std::optional(spec) : std::nullopt;
    };
    PipelineParallel shapes(group, here(stage > 0, stage == 2 ? eight : six), here(stage < 2, six));
    EXPECT_TRUE(Throws([&] { shapes.run(gpipe(3, 4), step); }, tuttiInvalidUsage,
                       {"stage 1 gives float32 [2, 3]", "stage 2 takes float32 [2, 4]"}));
    PipelineParallel types(group, here(stage > 0, six),
                           here(stage < 2, {{2, 3}, stage == 0 ? tuttiInt32 : tuttiFloat}));
    EXPECT_TRUE(Throws([&] { types.run(gpipe(3, 4), step); }, tuttiInvalidUsage,
                       {"stage 0 gives int32 [2, 3]", "stage 1 takes float32 [2, 3]"}));
    auto pipeline = PipelineOf(group);
    EXPECT_TRUE(Throws([&] { pipeline.run(gpipe(3, stage == 1 ? 8 : 4), step); }, tuttiInvalidUsage,
                       {"microbatches is 4 on stage 0, but 8 on stage 1"}));
    EXPECT_TRUE(Throws([&] { pipeline.run(get_schedule(stage == 2 ? "1F1B" : "GPipe", 3, 4), step); },
                       tuttiInvalidUsage, {"\"GPipe\" on stage 0, but \"1F1B\" on stage 2"}));
    EXPECT_TRUE(Throws([&] { pipeline.run(gpipe(4, 4), step); }, tuttiInvalidArgument,
                       {"stage 0", "4 stages", "group has 3 ranks"}));
    auto broken = gpipe(3, 4);
    broken.actions[1].pop_back();
    EXPECT_TRUE(Throws([&] { pipeline.run(broken, step); }, tuttiInvalidArgument,
                       {"stage 1 never does the backward of microbatch 3"}));
    EXPECT_TRUE(Throws([&] { pipeline.run(zero_bubble_h1(3, 4), step); }, tuttiInvalidArgument,
                       {"stage 0", "\"ZB-H1\" splits each backward into two parts", "SplitBackwardStep"}));
    EXPECT_TRUE(Throws([&] { pipeline.run(interleaved_one_forward_one_backward(3, 6, 2), step); }, tuttiInvalidArgument,
                       {"stage 0", "\"Interleaved1F1B\" has 2 model chunks a stage", "given 1 chunks"}));
    const int chunks_here = stage == 1 ? 3 : 2;
    PipelineParallel uneven(group, EndsOf(stage, 3, chunks_here));
    const std::vector<PipelineStep*> steps(static_cast<std::size_t>(chunks_here), &step);
    EXPECT_TRUE(Throws([&] { uneven.run(interleaved_one_forward_one_backward(3, 6, chunks_here), steps); },
                       tuttiInvalidUsage, {"number of model chunks a stage is 2 on stage 0, but 3 on stage 1"}));
    // One stage alone has other chunks than the schedule.
    PipelineParallel other(group, EndsOf(stage, 3, 2 + stage % 2));
    EXPECT_TRUE(Throws(
        [&] {
          other.run(interleaved_one_forward_one_backward(3, 6, 2), {&step, &step});
        },
        tuttiInvalidArgument, {"stage 1", "2 model chunks a stage", "given 3 chunks"}));
    auto ends = EndsOf(stage, 3, 2);
    if (stage == 0) ends[1].input = six;
    PipelineParallel wrapped(group, ends);
    EXPECT_TRUE(Throws(
        [&] {
          wrapped.run(interleaved_one_forward_one_backward(3, 6, 2), {&step, &step});
        },
        tuttiInvalidUsage, {"chunk 0 of stage 2 gives float32 [4, 3]", "chunk 1 of stage 0 takes float32 [2, 3]"}));
    // All stages get a problem of one stage alone, too.
    PipelineParallel poor(group, Between(stage - 1, 3), Between(stage, 3), [&](std::size_t bytes) {
      if (stage == 1) throw std::runtime_error("no memory for " + std::to_string(bytes) + " bytes");
      return allocate_memory(bytes);
    });
    EXPECT_TRUE(
        Throws([&] { poor.run(gpipe(3, 4), step); }, tuttiInvalidArgument, {"stage 1: no memory for 36 bytes"}));
    PipelineParallel deep(group, Between(stage - 1, 3),
                          stage == 1 ? std::optional(TensorSpec{Shape(9, 1), tuttiFloat32}) : Between(stage, 3));
    EXPECT_TRUE(
        Throws([&] { deep.run(gpipe(3, 4), step); }, tuttiInvalidArgument, {"stage 1", "9 dimensions", "at most 8"}));
    // A stage that cannot say what it gives gets its own exception.
    PipelineParallel asking(group, [&](int, const std::optional<TensorSpec>&) {
      if (stage == 1) throw std::domain_error("no layer for 3 columns");
      return Between(stage, 3);
    });
    if (stage == 1) {
      EXPECT_THROW(asking.run(gpipe(3, 4), step), std::domain_error);
    } else {
      EXPECT_TRUE(
          Throws([&] { asking.run(gpipe(3, 4), step); }, tuttiInvalidArgument, {"stage 1: no layer for 3 columns"}));
    }
    // The group still works.
    Stage good(stage);
    pipeline.run(gpipe(3, 4), good);
    ExpectGradientsOfUnsplit(good, stage, 3, 4);
    self.Meet();
  });
}

// A stage to which something happens in one of its microbatches.
class Misfortune : public Stage {
 public:
  using Stage::Stage;
  std::function<void(int microbatch)> in_forward = [](int) {};
  std::function<void(int microbatch)> in_backward = [](int) {};

  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    in_forward(microbatch);
    Stage::forward(microbatch, input, output);
  }
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override {
    in_backward(microbatch);
    Stage::backward(microbatch, input, grad_output, grad_input);
  }
};

void ThrowIn(int microbatch) {
  if (microbatch == 2) throw std::domain_error("a loss of NaN");
}

// Stage 1 of 3 throws in a pass of its third microbatch; the others get the error within `batches` batches.
void RunWithStage1Throwing(std::function<void(int)> Misfortune::*in, const std::string& name,
                           const std::vector<std::string>& words, int batches) {
  RunRanks(3, [&](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    auto pipeline = PipelineOf(group);
    Misfortune step(self.rank());
    if (self.rank() == 1) step.*in = ThrowIn;
    const auto run = [&] {
      for (int batch = 0; batch < batches; ++batch) pipeline.run(get_schedule(name, 3, 4), step);
    };
    if (self.rank() == 1) {
      EXPECT_THROW(run(), std::domain_error);
    } else {
      EXPECT_TRUE(Throws(run, tuttiRemoteError, words));
    }
    self.Meet();
  });
}

TEST(PipelineErrors, AStageThatThrowsEndsTheBatchOnAll) {
  const std::vector<std::string> words{"pipeline stage", "of 3 was stopped before the", "ranks are stages", "rank 1",
                                       "revoked"};
  for (const char* name : {"GPipe", "1F1B"}) RunWithStage1Throwing(&Misfortune::in_forward, name, words, 1);
}

// The last stage needs nothing more when stage 1 fails.
TEST(PipelineErrors, AStageThatWasDoneIsToldWhenItComesBack) {
  RunWithStage1Throwing(&Misfortune::in_backward, "GPipe", {"pipeline stage", "rank 1", "revoked"}, 2);
}

// Stage 1's second chunk throws, whose messages go round the ring.
TEST(PipelineErrors, AChunkThatThrowsEndsTheBatchOnAll) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    PipelineParallel pipeline(group, EndsOf(self.rank(), 3, 2));
    Misfortune first(self.rank()), second(3 + self.rank());
    if (self.rank() == 1) second.in_forward = ThrowIn;
    const auto run = [&] { pipeline.run(interleaved_one_forward_one_backward(3, 6, 2), {&first, &second}); };
    if (self.rank() == 1) {
      EXPECT_THROW(run(), std::domain_error);
    } else {
      EXPECT_TRUE(
          Throws(run, tuttiRemoteError, {"pipeline stage", "of 3 was stopped before the", "rank 1", "revoked"}));
    }
    self.Meet();
  });
}

class SplitMisfortune : public SplitStage {
 public:
  using SplitStage::SplitStage;
  void backward_weight(int microbatch, const Tensor* /*input*/, const Tensor* /*grad_output*/) override {
    ThrowIn(microbatch);
  }
};

// The others may need nothing more of it in this batch.
TEST(PipelineErrors, AStageThatThrowsInTheWeightsPart) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    auto pipeline = PipelineOf(group);
    SplitStage good(self.rank());
    SplitMisfortune bad(self.rank());
    PipelineStep& step = self.rank() == 1 ? static_cast<PipelineStep&>(bad) : good;
    const auto run = [&] {
      for (int batch = 0; batch < 2; ++batch) pipeline.run(zero_bubble_h1(3, 4), step);
    };
    if (self.rank() == 1) {
      EXPECT_THROW(run(), std::domain_error);
    } else {
      EXPECT_TRUE(Throws(run, tuttiRemoteError, {"pipeline stage", "rank 1", "revoked"}));
    }
    self.Meet();
  });
}

TEST(PipelineErrors, AStageThatDiesIsNamed) {
  RunRanks(
      4,
      [](Rank& self) {
        const auto comm = self.Join();
        ProcessGroup group(comm);
        auto pipeline = PipelineOf(group);
        Misfortune step(self.rank());
        step.in_backward = [&](int microbatch) {
          if (self.rank() == 2 && microbatch == 1) std::raise(SIGKILL);
        };
        EXPECT_TRUE(Throws([&] { pipeline.run(one_forward_one_backward(4, 8), step); }, tuttiRemoteError,
                           {"pipeline stage " + std::to_string(self.rank()) + " of 4", "rank 2"}));
      },
      RunOptions{.may_die = {2}});
}

// Takes and gives tensors of so many rows.
class OfRows : public PipelineStep {
 public:
  explicit OfRows(const std::size_t& rows) : rows_(rows) {}
  void forward(int, const Tensor* input, const Tensor* output) override { Expect(input), Expect(output); }
  void backward(int, const Tensor*, const Tensor* grad_output, const Tensor* grad_input) override {
    Expect(grad_output), Expect(grad_input);
  }

 private:
  void Expect(const Tensor* tensor) const {
    if (tensor != nullptr) {
      EXPECT_EQ(tensor->shape.at(0), rows_);
    }
  }
  const std::size_t& rows_;
};

// A stage has no memory for longer microbatches. Those of before then run again, without anybody asking.
TEST(PipelineErrors, AfterShapesWithoutMemoryTheOldOnesRun) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    std::size_t rows = 4;
    bool is_full = false;
    PipelineParallel pipeline(
        group,
        [&](int, const auto&) {
          return self.rank() == 0 ? std::optional(TensorSpec{{rows, 3}, tuttiFloat32}) : std::nullopt;
        },
        [&](std::size_t bytes) {
          if (is_full && self.rank() == 1) throw std::runtime_error("no memory");
          return allocate_memory(bytes);
        });
    OfRows step(rows);
    pipeline.run(one_forward_one_backward(2, 4), step);
    rows = 400, is_full = true;
    if (self.rank() == 0) pipeline.ask_again();
    EXPECT_TRUE(Throws([&] { pipeline.run(one_forward_one_backward(2, 4), step); }, tuttiInvalidArgument,
                       {"stage 1: no memory"}));
    rows = 4, is_full = false;
    for (int batch = 0; batch < 2; ++batch) EXPECT_NO_THROW(pipeline.run(one_forward_one_backward(2, 4), step));
    self.Meet();
  });
}

// The other stages get as much as fits of a long text, and no part of a character.
TEST(PipelineErrors, ALongTextEndsWithAWholeCharacter) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    for (const std::string ascii : {"", "-"}) {
      PipelineParallel pipeline(group, [&](int, const auto&) -> std::optional<TensorSpec> {
        if (self.rank() == 0) return TensorSpec{{4, 3}, tuttiFloat32};
        std::string text = ascii;
        for (int i = 0; i < 400; ++i) text += "\u00fc";
        throw std::runtime_error(text);
      });
      NoStep step;
      try {
        pipeline.run(gpipe(2, 4), step);
        ADD_FAILURE() << "no error";
      } catch (const std::exception& error) {
        EXPECT_TRUE(std::string_view(error.what()).ends_with("\u00fc"));
      }
    }
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
