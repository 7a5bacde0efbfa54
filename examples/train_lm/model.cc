#include "model.h"

#include <fmt/format.h>

#include <memory>
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
  in_.parameters.in_forward("embedding", [&] {
    MakeEmbedding().forward(samples.ids, x);
    const Buffer rows = in_.make(x.shape);
    in_.math.compute().embed(positions_, in_.parameters.data("positions"), 0, rows);
    in_.math.add(x, rows, x);
  });
}

void Model::EmbedBackward(const Samples& samples, Buffer grad) {
  const auto kept = std::make_shared<Buffer>(std::move(grad));
  in_.parameters.in_backward("embedding", [&] {
    // The layer uses only its weight's shape, because the weight's memory may be gone by then.
    in_.parameters.weight_grads().call([&compute = in_.math.compute(), layer = MakeEmbedding(), ids = samples.ids, kept,
                                        positions = positions_.tensor(),
                                        grad_positions = in_.parameters.grad("positions")]() mutable {
      compute.embed_backward(positions, *kept, 0, grad_positions);
      layer.backward(ids, *kept);
    });
  });
}

double Model::Head(const Samples& samples, const Tensor& x, Saved& saved) {
  in_.parameters.in_forward("head", [&] {
    saved.norm = norm_.forward(x);
    saved.logits = in_.make(in_.part_of_columns(in_.model.vocabulary));
    MakeHead().forward(saved.norm.y, saved.logits);
  });
  const Buffer losses = in_.make({samples.targets.count()});
  saved.loss.emplace(in_.tp, in_.model.vocabulary);
  saved.loss->forward(saved.logits, samples.targets, losses);
  std::vector<float> values(losses.tensor().count());
  in_.math.compute().download(losses, values.data());
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void Model::HeadBackward(const Samples& samples, const Tensor& x, Saved& saved, float loss_scale, const Tensor& grad) {
  const std::vector<float> scales(samples.targets.count(), loss_scale);
  const Buffer grad_losses = in_.make({scales.size()});
  in_.math.compute().upload(scales.data(), grad_losses);
  const Tensor& logits = saved.logits;
  saved.loss->backward(logits, samples.targets, grad_losses, logits);
  in_.math.compute().zero(grad);
  in_.parameters.in_backward("head", [&] {
    Buffer grad_norm = in_.make(x.shape);
    MakeHead().backward(saved.norm.y, logits, grad_norm);
    norm_.backward(x, saved.norm, std::move(grad_norm), grad);
  });
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
    saved.blocks.push_back(Block(in_, blocks_[i]).forward(saved.inputs[i], y));
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
  Buffer own = in_.make(activation_shape());
  const Tensor grad = grad_input != nullptr ? *grad_input : own.tensor();
  if (grad_output == nullptr) {
    HeadBackward(samples, saved.inputs.back(), saved, loss_scale, grad);
  } else {
    in_.math.compute().copy_columns(*grad_output, 0, grad, 0, in_.model.hidden);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    Block(in_, blocks_[i]).backward(saved.inputs[i], saved.blocks[i], grad);
  }
  if (first()) EmbedBackward(samples, std::move(own));
  return std::move(saved);
}

void Model::backward_input(int microbatch, const Samples& samples, const Tensor* grad_output, const Tensor* grad_input,
                           float loss_scale) {
  in_.parameters.defer(true);
  auto saved = Backward(microbatch, samples, grad_output, grad_input, loss_scale);
  in_.parameters.defer(false);
  put_off_.erase(microbatch);
  put_off_.emplace(microbatch, PutOff{std::move(saved), in_.parameters.take_put_off()});
}

void Model::backward_weight(int microbatch) {
  const auto node = put_off_.extract(microbatch);
  in_.parameters.backward_weight(node.mapped().gradients);
}

}  // namespace train_lm
