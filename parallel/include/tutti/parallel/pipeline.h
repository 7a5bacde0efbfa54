// Pipeline parallelism: each rank of a group holds one stage of a model - one chunk of it, or several with interleaving
// - and a schedule orders the forwards and backwards of a batch's microbatches (pipeline_schedule.h names the papers).
// Between two actions, groups of sends and receives carry a stage's results to the stages that need them.
//
//   PipelineParallel pipeline(state.get_pipeline_model_parallel_group(), takes, gives);
//   pipeline.run(one_forward_one_backward(stages, microbatches), step);
//
// Invariants: nothing of a batch is sent unless all stages agree on the schedule and each chunk takes what the previous
// one gives. Memory is for as many tensors as a schedule ever has in flight here, and is reused; what chunks that are asked
// again do not need is let go of.
// Thread-safety: one thread at a time, as for a communicator.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/parallel/pipeline_schedule.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

// A tensor without its memory.
struct TUTTI_API TensorSpec {
  Shape shape;
  tuttiDataType_t dtype = tuttiFloat32;
  bool operator==(const TensorSpec&) const = default;
};
TUTTI_API std::string describe(const TensorSpec& spec);  // "float32 [2, 3]"

// A chunk's tensors from the previous chunk and for the next one, a microbatch; none at the model's ends. Gradients are
// of the same type and shape.
struct TUTTI_API PipelineEnds {
  std::optional<TensorSpec> input;
  std::optional<TensorSpec> output;
};

// What this stage's chunk gives for each microbatch if it takes `takes`. The model's first chunk takes nothing, its
// last one gives nothing.
using PipelineGives = std::function<std::optional<TensorSpec>(int chunk, const std::optional<TensorSpec>& takes)>;

// The application's part: one chunk's computation. Tensors are the pipeline's memory; null where the pipeline ends.
class TUTTI_API PipelineStep {
 public:
  virtual ~PipelineStep() = default;
  // `input`: the previous stage's activation, valid until this microbatch's last backward returns, or with
  // forward_only() until this does. `output`: the step fills
  // it for the next stage.
  virtual void forward(int microbatch, const Tensor* input, const Tensor* output) = 0;
  // `grad_output`: gradient of the loss by this microbatch's output. `grad_input`: by its input; the step fills it for
  // the previous stage.
  virtual void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) = 0;
};

// A step that can do a backward in two parts, as zero-bubble schedules need; names are those of PyTorch's pipelining.
class TUTTI_API SplitBackwardStep : public PipelineStep {
 public:
  // grad_input alone, for which the previous stage waits.
  virtual void backward_input(int microbatch, const Tensor* input, const Tensor* grad_output,
                              const Tensor* grad_input) = 0;
  // The parameters' gradients of the same microbatch, later; `input` and `grad_output` are unchanged.
  virtual void backward_weight(int microbatch, const Tensor* input, const Tensor* grad_output) = 0;
};

// Memory that the group's communicator reaches, freed with the last pointer.
using Allocate = std::function<std::shared_ptr<void>(std::size_t bytes)>;
// Calls tuttiMemAlloc: memory of the device in a thread with a current CUDA context, else of the host. Throws Error.
TUTTI_API std::shared_ptr<void> allocate_memory(std::size_t bytes);

class TUTTI_API PipelineParallel {
 public:
  // `group`'s rank is the stage; it outlives this. `chunks`: of this stage.
  PipelineParallel(ProcessGroup& group, std::vector<PipelineEnds> chunks, Allocate allocate = allocate_memory);
  // A stage of one chunk, which takes `input` and gives `output`.
  PipelineParallel(ProcessGroup& group, std::optional<TensorSpec> input, std::optional<TensorSpec> output,
                   Allocate allocate = allocate_memory);

  // Of chunks that do not know what they take and give: the first run asks the model's first chunk, then the next one
  // with what that gives, and so on. If `gives` throws, the exception passes there, and the other stages get
  // tuttiInvalidArgument with its text.
  PipelineParallel(ProcessGroup& group, PipelineGives gives, Allocate allocate = allocate_memory);
  // The next run asks again. One stage's call is enough: that of the first one, whose microbatches have another shape.
  void ask_again() { asks_ = gives_ != nullptr; }

  // Does one batch; collective over the group. With a stream, the step must put its work behind the stream's (kernels
  // on the same CUDA stream; tuttiStreamSynchronize first on the host). Batches on two streams must not overlap, since
  // they share the pipeline's memory, which outlives the work on the streams.
  //
  // Throws Error on every rank, before anything of the batch is sent, where a schedule cannot be run or the stages do
  // not agree: tuttiInvalidArgument or tuttiInvalidUsage with the quantity, the stages and both values; the group stays
  // as it was. Exceptions of the step pass through; then, and when a stage dies, the group's communicator is dead, and
  // the stages that still need something get an Error (tuttiRemoteError) naming the stage. A stage that has done its
  // part may have returned, so that it can go on while earlier stages finish; its next call throws the Error.
  void run(const PipelineSchedule& schedule, PipelineStep& step, tuttiStream_t stream = nullptr);
  // `steps`: one for each chunk; SplitBackwardSteps if the schedule does backwards in two parts.
  void run(const PipelineSchedule& schedule, const std::vector<PipelineStep*>& steps, tuttiStream_t stream = nullptr);

 private:
  class Batch;
  // Kept from batch to batch; by size.
  using Memory = std::map<std::size_t, std::vector<std::shared_ptr<void>>>;

  // Proves the schedule.
  void Check(const PipelineSchedule& schedule, const std::vector<PipelineStep*>& steps);
  void AllocateFor(const PipelineSchedule& schedule);
  // Frees what tensors of other shapes have needed.
  void LetGo(const PipelineSchedule& schedule, tuttiStream_t stream);
  // Returns whether a stage asks.
  bool Negotiate(const PipelineSchedule& schedule, const std::string& trouble);
  void Ask(const PipelineSchedule& schedule);

  ProcessGroup& group_;
  std::vector<PipelineEnds> chunks_;
  PipelineGives gives_;
  bool asks_ = false;
  PipelinePlacement placement_ = PipelinePlacement::loop;  // of what is known of chunks, if they are asked
  Allocate allocate_;
  Memory memory_;
};

}  // namespace tutti::parallel
