#include "tutti/parallel/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "parallel/pipeline/pipeline_memory.h"
#include "parallel/pipeline/pipeline_negotiation.h"
#include "parallel/pipeline/pipeline_walk.h"
#include "tutti/parallel/error.h"
#include "tutti/parallel/p2p_communication.h"
#include "tutti/parallel/pipeline_verify.h"

namespace tutti::parallel {
namespace {

std::size_t BytesOf(const TensorSpec& spec) { return Tensor(nullptr, spec.shape, spec.dtype).bytes(); }

// Returns `call`'s result; adds to an Error of it where the pipeline stood. `when`: "before ...".
template <typename Call>
auto Placed(const ProcessGroup& group, const std::string& when, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("pipeline stage {} of {} was stopped {} (ranks are stages here): {}",
                                          group.rank(), group.size(), when, error.what()));
  }
}

// The spec of the tensor in such a buffer.
const std::optional<TensorSpec>& SpecOf(const std::vector<PipelineEnds>& chunks, const BufferUse& use) {
  const auto& ends = chunks[static_cast<std::size_t>(use.chunk)];
  const bool is_input = use.buffer == PipelineBuffer::input || use.buffer == PipelineBuffer::grad_input;
  return is_input ? ends.input : ends.output;
}

// The most buffers that the stage has in use at once.
BuffersBySize NeedsOf(const std::vector<PipelineEnds>& chunks, const PipelineSchedule& schedule, int stage) {
  return most_in_use(schedule, stage, [&](const BufferUse& use) {
    const auto& spec = SpecOf(chunks, use);
    return spec ? BytesOf(*spec) : 0;  // the stages do not fit then: all get that error
  });
}

// Of the exception that is handled now; never empty, since an empty text says that all is well.
std::string SentenceOfException() {
  std::string text;
  try {
    throw;
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {  // of any type
  }
  return text.empty() ? "an exception without a text" : text;
}

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
  Batch(PipelineParallel& pipeline, const PipelineSchedule& schedule, const std::vector<PipelineStep*>& steps,
        tuttiStream_t stream)
      : pipeline_(pipeline), schedule_(schedule), steps_(steps), stream_(stream) {
    for (const auto& [bytes, memory] : pipeline.memory_) {
      for (const auto& each : memory) free_[bytes].push_back(each.get());
    }
  }

  void Run() {
    const auto& actions = schedule_.actions[static_cast<std::size_t>(stage())];
    for (std::size_t place = 0; place < actions.size(); ++place) {
      Exchange(place, fmt::format("before {}", describe(actions[place])));
      Do(actions[place]);
    }
    Exchange(actions.size(), "after its last action");
  }

 private:
  int stage() const { return pipeline_.group_.rank(); }

  // Buffers have been counted, so one is free.
  const Tensor* Take(const BufferUse& use) {
    const auto& spec = *SpecOf(pipeline_.chunks_, use);
    auto& free = free_.at(BytesOf(spec));
    const auto taken = in_use_.emplace(use, Tensor(free.back(), spec.shape, spec.dtype)).first;
    free.pop_back();
    return &taken->second;
  }
  void Release(const BufferUse& use) {
    const auto node = in_use_.extract(use);
    free_.at(node.mapped().bytes()).push_back(node.mapped().data);
  }

  void Exchange(std::size_t place, const std::string& when) {
    for (const auto& exchange : exchanges_before(schedule_, stage(), place)) {
      std::vector<P2POp> operations;
      for (const auto& send : exchange.sends) {
        operations.push_back({P2P::isend, in_use_.at(sent_from(send)), send.to});
      }
      for (const auto& receive : exchange.receives) {
        operations.push_back({P2P::irecv, *Take(received_in(schedule_, receive)), receive.from});
      }
      Placed(pipeline_.group_, when, [&] { batch_isend_irecv(pipeline_.group_, operations, stream_); });
      for (const auto& send : exchange.sends) Release(sent_from(send));
    }
  }

  void Do(const PipelineAction& action) {
    const auto& [pass, microbatch, chunk] = action;
    const auto made = transfer_of(schedule_, stage(), action);
    const Tensor* const makes = made ? Take(sent_from(*made)) : nullptr;
    const Tensor* const input = InUse({PipelineBuffer::input, chunk, microbatch});
    const Tensor* const grad_output = InUse({PipelineBuffer::grad_output, chunk, microbatch});
    auto& step = *steps_[static_cast<std::size_t>(chunk)];
    switch (pass) {
      case PipelinePass::forward: step.forward(microbatch, input, makes); break;
      case PipelinePass::backward: step.backward(microbatch, input, grad_output, makes); break;
      case PipelinePass::backward_input: Split(step).backward_input(microbatch, input, grad_output, makes); break;
      case PipelinePass::backward_weight: Split(step).backward_weight(microbatch, input, grad_output); break;
    }
    if (made && IsLocal(*made)) HandOver(*made);
    for (const auto& use : last_read_by(schedule_, stage(), action)) Release(use);
  }
  // Between two chunks of this stage a result stays where it is.
  void HandOver(const PipelineTransfer& transfer) {
    auto node = in_use_.extract(sent_from(transfer));
    node.key() = received_in(schedule_, transfer);
    in_use_.insert(std::move(node));
  }
  const Tensor* InUse(const BufferUse& use) const {
    const auto found = in_use_.find(use);
    return found == in_use_.end() ? nullptr : &found->second;
  }
  static SplitBackwardStep& Split(PipelineStep& step) { return dynamic_cast<SplitBackwardStep&>(step); }

  PipelineParallel& pipeline_;
  const PipelineSchedule& schedule_;
  const std::vector<PipelineStep*>& steps_;
  tuttiStream_t stream_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size
  std::map<BufferUse, Tensor> in_use_;
};

PipelineParallel::PipelineParallel(ProcessGroup& group, std::vector<PipelineEnds> chunks, Allocate allocate)
    : group_(group), chunks_(std::move(chunks)), allocate_(std::move(allocate)) {}

PipelineParallel::PipelineParallel(ProcessGroup& group, std::optional<TensorSpec> input,
                                   std::optional<TensorSpec> output, Allocate allocate)
    : PipelineParallel(group, {{std::move(input), std::move(output)}}, std::move(allocate)) {}

PipelineParallel::PipelineParallel(ProcessGroup& group, PipelineGives gives, Allocate allocate)
    : group_(group), gives_(std::move(gives)), asks_(true), allocate_(std::move(allocate)) {}

void PipelineParallel::Check(const PipelineSchedule& schedule, const std::vector<PipelineStep*>& steps) {
  require_verified(schedule);
  if (schedule.stages != group_.size()) {
    throw Error(tuttiInvalidArgument, fmt::format("the schedule has {} stages, but the pipeline's group has {} ranks",
                                                  schedule.stages, group_.size()));
  }
  if (gives_ && (std::cmp_not_equal(chunks_.size(), schedule.chunks) || schedule.placement != placement_)) {
    chunks_.assign(static_cast<std::size_t>(schedule.chunks), {});  // what is known is of other chunks
    placement_ = schedule.placement;
    asks_ = true;
  }
  for (const auto& [what, count] :
       {std::pair{"chunks", chunks_.size()}, std::pair{gives_ ? "chunks" : "steps", steps.size()}}) {
    if (std::cmp_equal(count, schedule.chunks)) continue;
    throw Error(tuttiInvalidArgument,
                fmt::format("the schedule \"{}\" has {} model chunks a stage, but the pipeline was given {} {}",
                            schedule.name, schedule.chunks, count, what));
  }
  for (const auto& action : schedule.actions[static_cast<std::size_t>(group_.rank())]) {
    const bool is_part = action.pass == PipelinePass::backward_input || action.pass == PipelinePass::backward_weight;
    const auto* const step = steps[static_cast<std::size_t>(action.chunk)];
    if (!is_part || dynamic_cast<const SplitBackwardStep*>(step) != nullptr) continue;
    throw Error(
        tuttiInvalidArgument,
        fmt::format("the schedule \"{}\" splits each backward into two parts (backward_input, backward_weight), but "
                    "the step of chunk {} has only backward: derive it from SplitBackwardStep",
                    schedule.name, action.chunk));
  }
}

void PipelineParallel::AllocateFor(const PipelineSchedule& schedule) {
  for (const auto& [bytes, count] : NeedsOf(chunks_, schedule, group_.rank())) {
    auto& memory = memory_[bytes];
    while (memory.size() < count) memory.push_back(allocate_(bytes));
  }
}

void PipelineParallel::LetGo(const PipelineSchedule& schedule, tuttiStream_t stream) {
  // Earlier batches, which come before this one on its stream, may still use the memory. (A CUDA stream is refused:
  // freeing its device's memory waits for it.)
  if (stream != nullptr) tuttiStreamSynchronize(stream);
  const auto needs = NeedsOf(chunks_, schedule, group_.rank());
  for (auto& [bytes, memory] : memory_) {
    const auto need = needs.find(bytes);
    memory.resize(std::min(memory.size(), need == needs.end() ? 0 : need->second));
  }
  std::erase_if(memory_, [](const auto& kept) { return kept.second.empty(); });
}

bool PipelineParallel::Negotiate(const PipelineSchedule& schedule, const std::string& trouble) {
  auto mine = TermsOf(schedule);
  mine.trouble = trouble;
  mine.asks = asks_;
  std::vector<PipelineTerms> all;
  for (std::size_t chunk = 0; chunk == 0 || std::cmp_less(chunk, schedule.chunks); ++chunk) {
    // A stage that has fewer chunks than its schedule is in trouble, which is reported first.
    if (chunk < chunks_.size()) mine.takes = chunks_[chunk].input, mine.gives = chunks_[chunk].output;
    const auto terms = Placed(group_, "while agreeing on a batch", [&] { return Gather(group_, mine); });
    RequireSameSchedule(terms);
    if (std::ranges::any_of(terms, &PipelineTerms::asks)) return true;
    std::ranges::copy(terms, std::back_inserter(all));
  }
  RequireFitting(schedule, all);
  return false;
}

void PipelineParallel::Ask(const PipelineSchedule& schedule) {
  auto mine = TermsOf(schedule);
  std::optional<TensorSpec> takes;
  for (int number = 0; number < schedule.stages * schedule.chunks; ++number) {
    const auto [stage, chunk] = chunk_at(schedule, number);
    std::exception_ptr failure;
    if (stage == group_.rank()) {
      auto& ends = chunks_[static_cast<std::size_t>(chunk)];
      try {
        if (gives_) ends = {takes, gives_(chunk, takes)};
        mine.gives = ends.output;
      } catch (...) {
        mine.trouble = SentenceOfException();
        failure = std::current_exception();
      }
    }
    const auto all = Placed(group_, "while agreeing on a batch", [&] { return Gather(group_, mine); });
    if (failure) std::rethrow_exception(failure);
    RequireSameSchedule(all);
    takes = all[static_cast<std::size_t>(stage)].gives;
  }
  asks_ = false;
}

void PipelineParallel::run(const PipelineSchedule& schedule, PipelineStep& step, tuttiStream_t stream) {
  run(schedule, std::vector<PipelineStep*>{&step}, stream);
}

void PipelineParallel::run(const PipelineSchedule& schedule, const std::vector<PipelineStep*>& steps,
                           tuttiStream_t stream) {
  // All stages get a problem of this stage alone: else they would wait for it.
  const auto trouble_in = [](const auto& call) -> std::string {
    try {
      call();
    } catch (...) {
      return SentenceOfException();
    }
    return "";
  };
  const auto trouble = trouble_in([&] {
    Check(schedule, steps);
    if (!asks_) AllocateFor(schedule);
  });
  if (Negotiate(schedule, trouble)) {
    Ask(schedule);
    try {
      Negotiate(schedule, trouble_in([&] {
                  LetGo(schedule, stream);
                  AllocateFor(schedule);
                }));
    } catch (...) {
      ask_again();  // the caller may come back with the shapes of before, which no stage has any more
      throw;
    }
  }
  try {
    Batch(*this, schedule, steps, stream).Run();
  } catch (...) {
    // Work under way on a stream of the host ends before its memory may be freed, which includes the pipeline's when
    // its owner leaves. (A CUDA stream is refused: freeing its device's memory waits for it.) Then the stages that wait
    // for this one get an error, since it has left the batch.
    if (stream != nullptr) tuttiStreamSynchronize(stream);
    group_.revoke();
    throw;
  }
}

}  // namespace tutti::parallel
