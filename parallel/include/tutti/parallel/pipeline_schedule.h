// The actions of every stage of a pipeline, in order, as data that is verified (pipeline_verify.h), played in virtual
// time (pipeline_simulate.h), drawn (pipeline_draw.h) and run (pipeline.h). Transfers follow from the actions: a
// forward needs the previous stage's activation and feeds the next stage, a backward needs the next stage's gradient
// and feeds the previous one. Their times follow, too, unless a schedule says otherwise (`exchanges`): between two
// actions of a stage there is one exchange, which groups the send of the last action's result with the receive of the
// next one's input.
//
// A stage is a rank. It may hold several chunks of the model (Megatron-LM's virtual pipeline): chunk c of stage s is
// number c * stages + s of the chunks that a microbatch goes through, so that the last stage sends to the first.
//
// Stages, chunks and microbatches count from 0. Thread-safety: values and pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::parallel {

// A backward is done at once, or in two parts: the gradient of the input, for which the previous stage waits, and the
// gradient of the weights, which may come later. (B and W in Qi et al. 2023.)
enum class PipelinePass { forward, backward, backward_input, backward_weight };

struct TUTTI_API PipelineAction {
  PipelinePass pass = PipelinePass::forward;
  int microbatch = 0;
  int chunk = 0;  // of the stage's
  bool operator==(const PipelineAction&) const = default;
};

// One tensor on its way to another stage: a forward's activation to the next chunk, or a backward's gradient to the
// previous one.
struct TUTTI_API PipelineTransfer {
  PipelineAction made_by;  // forward or backward (also for a backward in two parts)
  int from = 0;
  int to = 0;
  bool operator==(const PipelineTransfer&) const = default;
};

// Transfers done together; the exchange ends when all have ended.
struct TUTTI_API PipelineExchange {
  std::vector<PipelineTransfer> sends;
  std::vector<PipelineTransfer> receives;
  bool operator==(const PipelineExchange&) const = default;
};

struct TUTTI_API PipelineSchedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;
  std::vector<std::vector<PipelineAction>> actions;  // by stage
  int chunks = 1;                                    // of the model, a stage
  // A stage's exchanges before the action at a place, one after the other; behind the last action, too. By stage and
  // place; empty: as follows from the actions.
  std::vector<std::vector<std::vector<PipelineExchange>>> exchanges = {};
};

// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", 2019: all forwards,
// then all backwards. (The backwards are in the microbatches' order, as in PyTorch and Megatron's figure; the reverse
// order of the paper takes as long.)
TUTTI_API PipelineSchedule gpipe(int stages, int microbatches);

// Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", 2021 (there: PipeDream-Flush), and "Efficient
// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021 (there: 1F1B): a stage starts with as
// many forwards as there are stages from it to the end, then does one backward for each forward. It takes as long as
// GPipe, but a stage holds the activations of at most stages - stage microbatches.
TUTTI_API PipelineSchedule one_forward_one_backward(int stages, int microbatches);

// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, section
// 2.2.2 (there: interleaved 1F1B): every stage has several chunks of the model and takes them in turn, as many
// microbatches of each as there are stages. The bubble is about 1 / chunks of 1F1B's, for more messages. Throws Error
// unless stages divides microbatches.
TUTTI_API PipelineSchedule interleaved_one_forward_one_backward(int stages, int microbatches, int chunks);

// Qi et al., "Zero Bubble Pipeline Parallelism", 2023, section 2.2: 1F1B whose backwards are done in two parts. Stage s
// does the weights' part s microbatches behind the input's, so that the previous stages get their gradients earlier and
// the weights' parts fill the end. A stage holds the activations of at most `stages` microbatches, as 1F1B's first
// stage does.
TUTTI_API PipelineSchedule zero_bubble_h1(int stages, int microbatches);

// By the name in PyTorch or the paper: "GPipe", "1F1B", "Interleaved1F1B" or "ZB-H1". Throws Error for another name,
// listing these, and for several chunks of a schedule that has one.
TUTTI_API PipelineSchedule get_schedule(const std::string& name, int stages, int microbatches, int chunks = 1);

// The transfer that `action` of `stage` makes for another chunk, and the one that it needs; none at the model's ends,
// and for the weights' part of a backward.
TUTTI_API std::optional<PipelineTransfer> transfer_of(const PipelineSchedule& schedule, int stage,
                                                      const PipelineAction& action);
TUTTI_API std::optional<PipelineTransfer> transfer_for(const PipelineSchedule& schedule, int stage,
                                                       const PipelineAction& action);

// The exchanges of `stage` before its action `place`; place == actions[stage].size(): after its last one.
// REQUIRES: place <= actions[stage].size().
TUTTI_API std::vector<PipelineExchange> exchanges_before(const PipelineSchedule& schedule, int stage,
                                                         std::size_t place);

// Places exchanges at times at which neither side computes, if backwards take twice as long as forwards (and their two
// parts equally long). So under rendezvous no sender waits for a receiver that still computes and does not need the
// tensor yet. A transfer is as late as it can be. Empty where the actions' order cannot be played.
TUTTI_API std::vector<std::vector<std::vector<PipelineExchange>>> plan_exchanges(const PipelineSchedule& schedule);

// "the backward of microbatch 3", "the gradient of microbatch 3", "the forward of microbatch 3 in chunk 1".
TUTTI_API std::string describe(const PipelineAction& action);
TUTTI_API std::string describe(const PipelineTransfer& transfer);

}  // namespace tutti::parallel
