// What every stage of a pipeline does, in order: data, which is verified (pipeline_verify.h), played in virtual time
// (pipeline_simulate.h), drawn (pipeline_draw.h) and run (pipeline.h). Communication is not written down, it follows
// from the actions: a forward needs the previous stage's activation and feeds the next stage, a backward needs the next
// stage's gradient and feeds the previous one. So between two actions of a stage there is one exchange: the send of
// what the last action made, grouped with the receive of what the next one needs.
//
// Stages and microbatches count from 0. Thread-safety: values and pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tutti::parallel {

enum class PipelinePass { forward, backward };

struct PipelineAction {
  PipelinePass pass = PipelinePass::forward;
  int microbatch = 0;
  bool operator==(const PipelineAction&) const = default;
};

struct PipelineSchedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;
  std::vector<std::vector<PipelineAction>> actions;  // by stage
};

// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", 2019: all forwards,
// then all backwards. (The backwards in the microbatches' order, as in PyTorch and Megatron's figure; the paper's own
// goes backwards through them, which takes as long.)
PipelineSchedule gpipe(int stages, int microbatches);

// Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021 (there: PipeDream-Flush), and "Efficient
// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021 (there: 1F1B): a stage starts with as
// many forwards as there are stages from it to the end, then does one backward for each forward. As long as GPipe, but
// a stage holds the activations of at most stages - stage microbatches.
PipelineSchedule one_forward_one_backward(int stages, int microbatches);

// By the name that PyTorch has for it, "GPipe" or "1F1B". Throws Error for another one, naming these.
PipelineSchedule get_schedule(const std::string& name, int stages, int microbatches);

// One tensor on its way to a neighbour: a forward's activation to the next stage, or a backward's gradient to the
// previous one.
struct PipelineTransfer {
  PipelineAction made_by;
  int from = 0;
  int to = 0;
  bool operator==(const PipelineTransfer&) const = default;
};

// Done together: over when both are.
struct PipelineExchange {
  std::optional<PipelineTransfer> send;
  std::optional<PipelineTransfer> receive;
};
// What `stage` exchanges before its action `place`; place == actions[stage].size(): after its last one.
// REQUIRES: place <= actions[stage].size().
PipelineExchange exchange_before(const PipelineSchedule& schedule, int stage, std::size_t place);

// "the backward of microbatch 3", "the gradient of microbatch 3".
std::string describe(const PipelineAction& action);
std::string describe(const PipelineTransfer& transfer);

}  // namespace tutti::parallel
