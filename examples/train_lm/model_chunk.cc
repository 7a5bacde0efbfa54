#include "model_chunk.h"

namespace train_lm {

ModelChunk::ModelChunk(const Surroundings& surroundings, const StageRange& range, std::size_t microbatches,
                       std::function<Loaded(int microbatch)> load)
    : in_(surroundings),
      range_(range),
      microbatches_(microbatches),
      load_(std::move(load)),
      model_(surroundings, range) {}

tutti::parallel::PipelineEnds ModelChunk::ends() const {
  const tutti::parallel::TensorSpec activation{model_.activation_shape()};
  tutti::parallel::PipelineEnds ends;
  if (range_.first_block > 0) ends.input = activation;
  if (range_.last_block < in_.model.layers) ends.output = activation;
  return ends;
}

Samples ModelChunk::At(int microbatch) const {
  const auto& loaded = samples_.at(microbatch);
  return {loaded.ids, loaded.targets};
}

// The mean over a replica's tokens.
float ModelChunk::LossScale() const {
  return 1 / static_cast<float>(microbatches_ * in_.attention.positions().size() * in_.batch);
}

void ModelChunk::forward(int microbatch, const Tensor* input, const Tensor* output) {
  in_.parameters.begin_pass();
  samples_.insert_or_assign(microbatch, load_(microbatch));
  model_.forward(microbatch, At(microbatch), input, output);
}

void ModelChunk::backward(int microbatch, const Tensor* /*input*/, const Tensor* grad_output,
                          const Tensor* grad_input) {
  in_.parameters.begin_pass();
  // The last micro-batch completes the step's gradients and sends them.
  in_.parameters.sync(CountsLast());
  model_.backward(microbatch, At(microbatch), grad_output, grad_input, LossScale());
}

void ModelChunk::backward_input(int microbatch, const Tensor* /*input*/, const Tensor* grad_output,
                                const Tensor* grad_input) {
  in_.parameters.begin_pass();
  model_.backward_input(microbatch, At(microbatch), grad_output, grad_input, LossScale());
}

void ModelChunk::backward_weight(int microbatch, const Tensor* /*input*/, const Tensor* /*grad_output*/) {
  in_.parameters.begin_pass();
  in_.parameters.sync(CountsLast());
  model_.backward_weight(microbatch);
}

}  // namespace train_lm
