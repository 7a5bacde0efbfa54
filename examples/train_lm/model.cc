#include "model.h"

#include <fmt/format.h>

#include <numeric>

namespace train_lm {

Model::Model(const Surroundings& surroundings, const StageRange& range)
    : in_(surroundings), range_(range), norm_(surroundings, "norm") {
  if (first()) {
    const Shape shape = activation_shape();
    const std::size_t begin = in_.sequence_parallel ? in_.tp.rank() * shape[0] : 0;
    std::vector<std::int32_t> ids(shape[0] * shape[1]);
    const auto& positions = in_.attention.positions();
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(positions[begin + i / shape[1]]);
    positions_ = Buffer(in_.math.compute(), {ids.size()}, tuttiInt32);
    in_.math.compute().upload(ids.data(), positions_);
  }
  for (std::size_t block = range_.first_block; block < range_.last_block; ++block) {
    blocks_.push_back(fmt::format("block{}", block));
  }
}

tutti::parallel::VocabParallelEmbedding Model::MakeEmbedding() const {
  return {in_.tp,
          in_.model.vocabulary,
          in_.model.hidden,
          in_.parameters.data("embedding"),
          in_.parameters.grad("embedding"),
          in_.sequence_parallel};
}

tutti::parallel::ColumnParallelLinear Model::MakeHead() const {
  return {
      in_.tp,
      in_.model.hidden,
      in_.model.vocabulary,
      {in_.parameters.data("head.weight"), {}, in_.parameters.grad("head.weight"), {}, &in_.parameters.weight_grads()},
      {.sequence_parallel = in_.sequence_parallel}};
}

void Model::Embed(const Samples& samples, const Tensor& x) {
  in_.parameters.pre_forward("embedding");
  MakeEmbedding().forward(samples.ids, x);
  const Buffer rows = in_.make(x.shape);
  in_.math.compute().embed(positions_, in_.parameters.data("positions"), 0, rows);
  in_.math.add(x, rows, x);
  in_.parameters.post_forward("embedding");
}

void Model::EmbedBackward(const Samples& samples, const Tensor& grad) {
  in_.parameters.pre_backward("embedding");
  in_.math.compute().embed_backward(positions_, grad, 0, in_.parameters.grad("positions"));
  MakeEmbedding().backward(samples.ids, grad);
  in_.parameters.mark_ready("positions");
  in_.parameters.mark_ready("embedding");
  in_.parameters.post_backward("embedding");
}

double Model::Head(const Samples& samples, const Tensor& x, Saved& saved) {
  in_.parameters.pre_forward("head");
  saved.norm = norm_.forward(x);
  saved.logits = in_.make(in_.part_of_columns(in_.model.vocabulary));
  MakeHead().forward(saved.norm.y, saved.logits);
  in_.parameters.post_forward("head");
  const Buffer losses = in_.make({samples.targets.count()});
  saved.loss.emplace(in_.tp, in_.model.vocabulary);
  saved.loss->forward(saved.logits, samples.targets, losses);
  std::vector<float> values(losses.tensor().count());
  in_.math.compute().download(losses, values.data());
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void Model::HeadBackward(const Samples& samples, const Tensor& x, Saved& saved, float loss_scale, const Tensor& grad) {
  in_.parameters.pre_backward("head");
  const std::vector<float> scales(samples.targets.count(), loss_scale);
  const Buffer grad_losses = in_.make({scales.size()});
  in_.math.compute().upload(scales.data(), grad_losses);
  const Tensor& logits = saved.logits;
  saved.loss->backward(logits, samples.targets, grad_losses, logits);
  const Buffer grad_norm = in_.make(x.shape);
  MakeHead().backward(saved.norm.y, logits, grad_norm);
  in_.math.compute().zero(grad);
  norm_.backward(x, saved.norm, grad_norm, grad);
  in_.parameters.mark_ready("norm.");
  in_.parameters.mark_ready("head.");
  in_.parameters.post_backward("head");
}

void Model::forward(int microbatch, const Samples& samples, const Tensor* input, const Tensor* output) {
  Saved saved;
  const auto add = [&]() -> const Tensor& {
    saved.own.push_back(in_.make(activation_shape()));
    return saved.inputs.emplace_back(saved.own.back().tensor());
  };
  if (input == nullptr) {
    Embed(samples, add());
  } else {
    saved.inputs.push_back(*input);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const bool goes_out = i + 1 == blocks_.size() && output != nullptr;
    const Tensor y = goes_out ? *output : add();
    in_.parameters.pre_forward(blocks_[i]);
    saved.blocks.push_back(Block(in_, blocks_[i]).forward(saved.inputs[i], y));
    in_.parameters.post_forward(blocks_[i]);
    remote_choices_ += saved.blocks.back().remote_choices();
  }
  if (last()) losses_[microbatch] = Head(samples, saved.inputs.back(), saved);
  saved_.erase(microbatch);
  saved_.emplace(microbatch, std::move(saved));
}

void Model::backward(int microbatch, const Samples& samples, const Tensor* grad_output, const Tensor* grad_input,
                     float loss_scale) {
  Backward(microbatch, samples, grad_output, grad_input, loss_scale);
}

Model::Saved Model::Backward(int microbatch, const Samples& samples, const Tensor* grad_output,
                             const Tensor* grad_input, float loss_scale) {
  auto node = saved_.extract(microbatch);
  Saved& saved = node.mapped();
  const Buffer own = in_.make(activation_shape());
  const Tensor& grad = grad_input != nullptr ? *grad_input : own.tensor();
  if (grad_output == nullptr) {
    HeadBackward(samples, saved.inputs.back(), saved, loss_scale, grad);
  } else {
    in_.math.compute().copy_columns(*grad_output, 0, grad, 0, in_.model.hidden);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    in_.parameters.pre_backward(blocks_[i]);
    Block(in_, blocks_[i]).backward(saved.inputs[i], saved.blocks[i], grad);
    in_.parameters.post_backward(blocks_[i]);
  }
  if (first()) EmbedBackward(samples, grad);
  return std::move(saved);
}

void Model::backward_input(int microbatch, const Samples& samples, const Tensor* grad_output, const Tensor* grad_input,
                           float loss_scale) {
  auto& weight_grads = in_.parameters.weight_grads();
  weight_grads.defer(true);
  auto saved = Backward(microbatch, samples, grad_output, grad_input, loss_scale);
  weight_grads.defer(false);
  put_off_.erase(microbatch);
  put_off_.emplace(microbatch, PutOff{std::move(saved), weight_grads.take()});
}

void Model::backward_weight(int microbatch) {
  const auto node = put_off_.extract(microbatch);
  for (const auto& gradient : node.mapped().gradients) gradient();
}

void Model::mark_ready() {
  for (std::size_t block = range_.first_block; block < range_.last_block; ++block) {
    in_.parameters.mark_ready(fmt::format("block{}.", block));
  }
  if (first()) {
    in_.parameters.mark_ready("positions");
    in_.parameters.mark_ready("embedding");
  }
  if (last()) {
    in_.parameters.mark_ready("norm.");
    in_.parameters.mark_ready("head.");
  }
}

}  // namespace train_lm
