// The actions of every stage of a pipeline, in order, as data that is verified (pipeline_verify.h), played in virtual
// time (pipeline_simulate.h), drawn (pipeline_draw.h) and run (pipeline.h). Transfers follow from the actions: a
// forward needs the previous stage's activation and feeds the next stage, a backward needs the next stage's gradient
// and feeds the previous one. Their times follow, too, unless a schedule says otherwise (`exchanges`): between two
// actions of a stage there is one exchange, which groups the send of the last action's result with the receive of the
// next one's input.
//
// A stage is a rank. It may hold several chunks of the model (Megatron-LM's virtual pipeline), whose places among all
// chunks that a microbatch goes through are the schedule's placement.
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

// One tensor on its way to another chunk: a forward's activation to the next chunk, or a backward's gradient to the
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

// Which of the model's chunks a stage holds. loop: its chunk c is number c * stages + stage, so that the last stage
// sends to the first. v: every second chunk goes the other way, so that of two chunks the first stage has the model's
// first and last, and the last stage two that follow each other. (The names of PyTorch's pipelining.)
enum class PipelinePlacement { loop, v };

struct TUTTI_API PipelineSchedule {
  std::string name;
  int stages = 0;
  int microbatches = 0;
  std::vector<std::vector<PipelineAction>> actions;  // by stage
  int chunks = 1;                                    // of the model, a stage
  // A stage's exchanges before the action at a place, one after the other; behind the last action, too. By stage and
  // place; empty: as follows from the actions.
  std::vector<std::vector<std::vector<PipelineExchange>>> exchanges = {};
  PipelinePlacement placement = PipelinePlacement::loop;
  bool forward_only = false;  // for inference: no microbatch has a backward
};

// The number, among the chunks that a microbatch goes through, of a stage's chunk; and whose chunk has a number.
struct TUTTI_API PipelineChunk {
  int stage = 0;
  int chunk = 0;
};
TUTTI_API int chunk_number(const PipelineSchedule& schedule, int stage, int chunk);
TUTTI_API PipelineChunk chunk_at(const PipelineSchedule& schedule, int number);

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
// microbatches of each as there are stages; a few more where stages do not divide microbatches. The bubble is about
// 1 / chunks of 1F1B's, for more messages.
TUTTI_API PipelineSchedule interleaved_one_forward_one_backward(int stages, int microbatches, int chunks);

// Qi et al., "Zero Bubble Pipeline Parallelism", 2023, section 2.2: 1F1B whose backwards are done in two parts. Stage s
// does the weights' part s microbatches behind the input's, so that the previous stages get their gradients earlier and
// the weights' parts fill the end. A stage holds the activations of at most `stages` microbatches, as 1F1B's first
// stage does.
TUTTI_API PipelineSchedule zero_bubble_h1(int stages, int microbatches);

// Qi et al., "Pipeline Parallelism with Controllable Memory", 2024 (there: V-ZB; ZB-V in the zero-bubble paper): two
// chunks a stage, placed as a V, and backwards in two parts. If a forward and both parts take equally long, and there
// are at least 2 * stages - 1 microbatches, a stage never stands idle between its first action and its last, and holds
// the activations of at most 2 * stages microbatches of a chunk, as much as 1F1B's first stage does.
TUTTI_API PipelineSchedule zero_bubble_v(int stages, int microbatches);

// The forwards of a schedule, in its order.
TUTTI_API PipelineSchedule forward_only(const PipelineSchedule& schedule);

// By the name in PyTorch or the paper: "GPipe", "1F1B", "Interleaved1F1B", "ZB-H1" or "ZB-V". Interleaved1F1B has 2
// chunks a stage unless `chunks` is given, ZB-V has 2, the others 1. Throws Error for another name, listing these, and
// for another number of chunks than the schedule has.
TUTTI_API PipelineSchedule get_schedule(const std::string& name, int stages, int microbatches,
                                        std::optional<int> chunks = std::nullopt);

// The transfer that `action` of `stage` makes for another chunk, and the one that it needs; none at the model's ends,
// and for the weights' part of a backward. Where from == to, nothing is sent: the stage has both chunks.
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
