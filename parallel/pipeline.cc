#include "tutti/parallel/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "parallel/pipeline_negotiation.h"
#include "tutti/parallel/error.h"
#include "tutti/parallel/p2p_communication.h"
#include "tutti/parallel/pipeline_verify.h"

namespace tutti::parallel {
namespace {

std::size_t BytesOf(const TensorSpec& spec) { return Tensor(nullptr, spec.shape, spec.dtype).bytes(); }

// A tensor of that spec in `memory`.
std::optional<Tensor> In(const std::shared_ptr<void>& memory, const std::optional<TensorSpec>& spec) {
  if (!spec) return std::nullopt;
  return Tensor(memory.get(), spec->shape, spec->dtype);
}

// `call`'s result; an Error of it says where the pipeline stood. `when`: "before ...".
template <typename Call>
auto Placed(const ProcessGroup& group, const std::string& when, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("pipeline stage {} of {} was stopped {} (ranks are stages here): {}",
                                          group.rank(), group.size(), when, error.what()));
  }
}

const Tensor* OrNull(const std::optional<Tensor>& tensor) { return tensor ? &*tensor : nullptr; }

}  // namespace

std::string describe(const TensorSpec& spec) { return fmt::format("{} {}", name_of(spec.dtype), describe(spec.shape)); }

std::shared_ptr<void> allocate_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(tuttiMemAlloc(&memory, std::max<std::size_t>(bytes, 1)));
  return {memory, [](void* each) { tuttiMemFree(each); }};
}

// One batch on this stage, agreed with the others.
class PipelineParallel::Batch {
 public:
  Batch(PipelineParallel& pipeline, const PipelineSchedule& schedule, PipelineStep& step, tuttiStream_t stream)
      : pipeline_(pipeline),
        schedule_(schedule),
        step_(step),
        communicator_(pipeline.group_, stream),
        output_(In(pipeline.buffers_.output, pipeline.output_)),
        grad_output_(In(pipeline.buffers_.grad_output, pipeline.output_)),
        grad_input_(In(pipeline.buffers_.grad_input, pipeline.input_)) {
    for (const auto& memory : pipeline.buffers_.inputs) free_.push_back(In(memory, pipeline.input_));
  }

  void Run() {
    const auto& actions = schedule_.actions[static_cast<std::size_t>(stage())];
    for (std::size_t place = 0; place < actions.size(); ++place) {
      if (actions[place].pass == PipelinePass::forward) Hold(actions[place].microbatch);
      Exchange(place, fmt::format("before {}", describe(actions[place])));
      Do(actions[place]);
    }
    Exchange(actions.size(), "after its last action");
  }

 private:
  int stage() const { return pipeline_.group_.rank(); }

  // The verifier has counted: there is one free.
  void Hold(int microbatch) {
    inputs_[microbatch] = free_.back();
    free_.pop_back();
  }

  void Exchange(std::size_t place, const std::string& when) {
    const auto exchange = exchange_before(schedule_, stage(), place);
    P2PTensors tensors;
    if (exchange.send) (exchange.send->to > stage() ? tensors.send_next : tensors.send_prev) = Made(*exchange.send);
    if (exchange.receive && exchange.receive->from < stage()) {
      tensors.recv_prev = OrNull(inputs_.at(exchange.receive->made_by.microbatch));
    } else if (exchange.receive) {
      tensors.recv_next = OrNull(grad_output_);
    }
    Placed(pipeline_.group_, when, [&] { communicator_.communicate(tensors); });
  }
  const Tensor* Made(const PipelineTransfer& transfer) const {
    return OrNull(transfer.made_by.pass == PipelinePass::forward ? output_ : grad_input_);
  }

  void Do(const PipelineAction& action) {
    const auto& input = inputs_.at(action.microbatch);
    if (action.pass == PipelinePass::forward) {
      step_.forward(action.microbatch, OrNull(input), OrNull(output_));
      return;
    }
    step_.backward(action.microbatch, OrNull(input), OrNull(grad_output_), OrNull(grad_input_));
    free_.push_back(input);
    inputs_.erase(action.microbatch);
  }

  PipelineParallel& pipeline_;
  const PipelineSchedule& schedule_;
  PipelineStep& step_;
  P2PCommunicator communicator_;
  std::optional<Tensor> output_;
  std::optional<Tensor> grad_output_;
  std::optional<Tensor> grad_input_;
  std::vector<std::optional<Tensor>> free_;
  std::map<int, std::optional<Tensor>> inputs_;  // of microbatches in flight
};

PipelineParallel::PipelineParallel(ProcessGroup& group, std::optional<TensorSpec> input,
                                   std::optional<TensorSpec> output, Allocate allocate)
    : group_(group), input_(std::move(input)), output_(std::move(output)), allocate_(std::move(allocate)) {}

void PipelineParallel::Prepare(const PipelineSchedule& schedule) {
  const auto verdict = require_verified(schedule);
  if (schedule.stages != group_.size()) {
    throw Error(tuttiInvalidArgument, fmt::format("the schedule has {} stages, but the pipeline's group {} ranks",
                                                  schedule.stages, group_.size()));
  }
  const auto have = [&](std::shared_ptr<void>& memory, const std::optional<TensorSpec>& spec) {
    if (spec && !memory) memory = allocate_(BytesOf(*spec));
  };
  have(buffers_.output, output_);
  have(buffers_.grad_output, output_);
  have(buffers_.grad_input, input_);
  const auto needed = static_cast<std::size_t>(verdict.activations[static_cast<std::size_t>(group_.rank())]);
  buffers_.inputs.resize(std::max(needed, buffers_.inputs.size()));
  for (auto& memory : buffers_.inputs) have(memory, input_);
}

void PipelineParallel::Negotiate(const PipelineSchedule& schedule, const std::string& trouble) {
  auto terms = TermsOf(schedule);
  terms.takes = input_;
  terms.gives = output_;
  terms.trouble = trouble;
  RequireAgreement(Placed(group_, "while agreeing on a batch", [&] { return Gather(group_, terms); }));
}

void PipelineParallel::run(const PipelineSchedule& schedule, PipelineStep& step, tuttiStream_t stream) {
  // What is wrong here alone is told to all: else they would wait for this stage.
  std::string trouble;
  try {
    Prepare(schedule);
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  Negotiate(schedule, trouble);
  try {
    Batch(*this, schedule, step, stream).Run();
  } catch (...) {
    // Stages that wait for this one learn that it has left the batch.
    tuttiCommRevoke(group_.comm());
    throw;
  }
}

}  // namespace tutti::parallel
