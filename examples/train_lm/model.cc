#include "model.h"

#include <fmt/format.h>

#include <numeric>

#include "tutti/parallel/mixed_heads.h"

namespace train_lm {
namespace {

using tutti::parallel::require_divisible;

// Of queries, keys and values together.
constexpr std::size_t kMixed = 3;

std::size_t SizeOf(const tutti::parallel::ProcessGroup& group) { return static_cast<std::size_t>(group.size()); }

const ModelConfig& Checked(const ModelConfig& config, ParallelState& state) {
  const std::size_t tp = SizeOf(state.get_tensor_model_parallel_group());
  require_divisible("hidden", config.hidden, "heads", config.heads);
  require_divisible("heads", config.heads, "tensor_model_parallel_size", tp);
  require_divisible("layers", config.layers, "pipeline_model_parallel_size",
                    SizeOf(state.get_pipeline_model_parallel_group()));
  if (config.sequence_parallel) require_divisible("sequence", config.sequence, "tensor_model_parallel_size", tp);
  return config;
}

std::string NameOf(std::size_t block) { return fmt::format("block{}.", block); }

// The parameters of blocks [first, last), and of what is before the first and after the last.
std::vector<ParameterSpec> ParametersOf(const ModelConfig& model, std::size_t first, std::size_t last) {
  std::vector<ParameterSpec> specs;
  const auto add = [&](std::string name, std::size_t rows, std::size_t columns, Split split) {
    specs.push_back({std::move(name), {rows, columns}, split});
  };
  const auto add_gain = [&](std::string name) {
    specs.push_back({.name = std::move(name), .whole = {model.hidden}, .is_gain = true});
  };
  if (first == 0) add("embedding", model.vocabulary, model.hidden, Split::rows);
  for (std::size_t block = first; block < last; ++block) {
    const auto name = NameOf(block);
    add_gain(name + "norm1");
    add(name + "qkv", kMixed * model.hidden, model.hidden, Split::rows);
    add(name + "out", model.hidden, model.hidden, Split::columns);
    add_gain(name + "norm2");
    add(name + "up", model.feed_forward, model.hidden, Split::rows);
    add(name + "down", model.hidden, model.feed_forward, Split::columns);
  }
  if (last == model.layers) {
    add_gain("head.norm");
    add("head.weight", model.vocabulary, model.hidden, Split::rows);
  }
  return specs;
}

}  // namespace

Norm::Norm(const Surroundings& surroundings, const std::string& name)
    : in_(surroundings), gain_(in_.parameters.data(name)), grad_gain_(in_.parameters.grad(name)) {}

Norm::Saved Norm::forward(const Tensor& x) const {
  Saved saved{in_.make(x.shape), in_.make({x.rows()})};
  in_.math.norm(x, gain_, saved.y, saved.scales);
  return saved;
}

void Norm::backward(const Tensor& x, const Saved& saved, const Tensor& grad_y, const Tensor& grad_x) const {
  in_.math.norm_backward(x, gain_, saved.scales, grad_y, grad_x, grad_gain_);
}

Block::Block(const Surroundings& surroundings, const std::string& name)
    : in_(surroundings),
      norm1_(in_, name + "norm1"),
      norm2_(in_, name + "norm2"),
      qkv_(in_.tp, in_.model.hidden, kMixed * in_.model.hidden, in_.parameters.linear(name + "qkv"),
           {.sequence_parallel = in_.model.sequence_parallel}),
      up_(in_.tp, in_.model.hidden, in_.model.feed_forward, in_.parameters.linear(name + "up"),
          {.sequence_parallel = in_.model.sequence_parallel}),
      out_(in_.tp, in_.model.hidden, in_.model.hidden, in_.parameters.linear(name + "out"),
           {.sequence_parallel = in_.model.sequence_parallel}),
      down_(in_.tp, in_.model.feed_forward, in_.model.hidden, in_.parameters.linear(name + "down"),
            {.sequence_parallel = in_.model.sequence_parallel}) {}

// Splits whole heads: each rank has some of them.
Tensor Block::Heads(const Tensor& tensor, bool mixed) const {
  const auto& model = in_.model;
  const std::size_t heads = model.heads / in_.tp.size(), width = model.hidden / model.heads;
  if (!mixed) return {tensor.floats(), {model.sequence, model.batch, heads, width}};
  return {tensor.floats(), tutti::parallel::mixed_shape(model.sequence, model.batch, heads, heads, width)};
}

Block::Saved Block::forward(const Tensor& x, const Tensor& y) {
  Saved saved;
  saved.norm1 = norm1_.forward(x);
  saved.qkv = in_.make(in_.part_of_columns(kMixed * in_.model.hidden));
  qkv_.forward(saved.norm1.y, saved.qkv);
  saved.attended = in_.make(in_.part_of_columns(in_.model.hidden));
  saved.attention = in_.attention.forward(Heads(saved.qkv, true), Heads(saved.attended, false));
  saved.between = in_.make(x.shape);
  out_.forward(saved.attended, saved.between);
  in_.math.add(x, saved.between, saved.between);

  saved.norm2 = norm2_.forward(saved.between);
  saved.up = in_.make(in_.part_of_columns(in_.model.feed_forward));
  up_.forward(saved.norm2.y, saved.up);
  saved.active = in_.make(saved.up.tensor().shape);
  in_.math.silu(saved.up, saved.active);
  down_.forward(saved.active, y);
  in_.math.add(saved.between, y, y);
  return saved;
}

void Block::backward(const Tensor& x, const Saved& saved, const Tensor& grad) {
  const Buffer grad_up = in_.make(saved.up.tensor().shape), grad_norm = in_.make(x.shape);
  down_.backward(saved.active, grad, grad_up);
  in_.math.silu_backward(saved.up, grad_up, grad_up);
  up_.backward(saved.norm2.y, grad_up, grad_norm);
  norm2_.backward(saved.between, saved.norm2, grad_norm, grad);

  const Buffer grad_attended = in_.make(saved.attended.tensor().shape), grad_qkv = in_.make(saved.qkv.tensor().shape);
  out_.backward(saved.attended, grad, grad_attended);
  in_.attention.backward(Heads(saved.qkv, true), Heads(saved.attended, false), saved.attention,
                         Heads(grad_attended, false), Heads(grad_qkv, true));
  qkv_.backward(saved.norm1.y, grad_qkv, grad_norm);
  norm1_.backward(x, saved.norm1, grad_norm, grad);
}

Model::Model(const ModelConfig& config, ParallelState& state, Math& math, std::function<Samples(int microbatch)> load)
    : config_(Checked(config, state)),
      first_block_(config.layers / SizeOf(state.get_pipeline_model_parallel_group()) *
                   static_cast<std::size_t>(state.get_pipeline_model_parallel_group().rank())),
      last_block_(first_block_ + config.layers / SizeOf(state.get_pipeline_model_parallel_group())),
      parameters_(ParametersOf(config, first_block_, last_block_), state, config.sequence_parallel, math),
      attention_(state.get_ulysses_parallel_group(), state.get_ring_parallel_group(), math.attention(),
                 {.sequence = config.sequence,
                  .batch = config.batch,
                  .heads = config.heads / SizeOf(state.get_tensor_model_parallel_group()),
                  .width = config.hidden / config.heads}),
      in_{config_, math, parameters_, {state.get_tensor_model_parallel_group(), math.compute()}, attention_},
      load_(std::move(load)) {
  for (std::size_t block = first_block_; block < last_block_; ++block) blocks_.emplace_back(in_, NameOf(block));
  if (first()) {
    embedding_.emplace(in_.tp, config_.vocabulary, config_.hidden, parameters_.data("embedding"),
                       parameters_.grad("embedding"), config_.sequence_parallel);
  }
  if (last()) {
    norm_.emplace(in_, "head.norm");
    head_.emplace(in_.tp, config_.hidden, config_.vocabulary, parameters_.linear("head.weight"),
                  tutti::parallel::ColumnParallelOptions{.sequence_parallel = config_.sequence_parallel});
  }
}

std::optional<tutti::parallel::TensorSpec> Model::input() const {
  if (first()) return std::nullopt;
  return tutti::parallel::TensorSpec{in_.activation_shape()};
}

std::optional<tutti::parallel::TensorSpec> Model::output() const {
  if (last()) return std::nullopt;
  return tutti::parallel::TensorSpec{in_.activation_shape()};
}

void Model::Head(Saved& saved) {
  saved.norm = norm_->forward(saved.inputs.back());
  saved.logits = in_.make(in_.part_of_columns(config_.vocabulary));
  head_->forward(saved.norm.y, saved.logits);
  const Tensor targets = saved.samples.targets;
  const Buffer losses = in_.make({targets.count()});
  saved.loss.emplace(in_.tp, config_.vocabulary);
  saved.loss->forward(saved.logits, targets, losses);
  std::vector<float> values(targets.count());
  in_.math.compute().download(losses, values.data());
  loss_ += std::accumulate(values.begin(), values.end(), 0.0);
}

// The loss is the mean over a step's tokens on this replica.
void Model::HeadBackward(Saved& saved, const Tensor& grad) {
  const Tensor targets = saved.samples.targets, logits = saved.logits;
  const std::vector<float> shares(targets.count(), 1 / static_cast<float>(config_.microbatches * targets.count()));
  const Buffer grad_losses = in_.make({shares.size()}), grad_norm = in_.make(grad.shape);
  in_.math.compute().upload(shares.data(), grad_losses);
  saved.loss->backward(logits, targets, grad_losses, logits);
  head_->backward(saved.norm.y, logits, grad_norm);
  in_.math.compute().zero(grad);
  norm_->backward(saved.inputs.back(), saved.norm, grad_norm, grad);
}

void Model::forward(int microbatch, const Tensor* input, const Tensor* output) {
  auto& saved = saved_[microbatch];
  saved.samples = load_(microbatch);
  const auto add = [&]() -> const Tensor& {
    saved.own.push_back(in_.make(in_.activation_shape()));
    return saved.inputs.emplace_back(saved.own.back().tensor());
  };
  if (input == nullptr) {
    embedding_->forward(saved.samples.ids, add());
  } else {
    saved.inputs.push_back(*input);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const bool goes_out = i + 1 == blocks_.size() && output != nullptr;
    const Tensor y = goes_out ? *output : add();
    saved.blocks.push_back(blocks_[i].forward(saved.inputs[i], y));
  }
  if (last()) Head(saved);
}

void Model::backward(int microbatch, const Tensor* /*input*/, const Tensor* grad_output, const Tensor* grad_input) {
  auto node = saved_.extract(microbatch);
  Saved& saved = node.mapped();
  // The step's last backward completes the gradients, of which DDP sends a bucket as soon as it is full.
  const bool completes = ++backwards_ == config_.microbatches;
  const auto ready = [&](const std::string& prefix) {
    if (completes) parameters_.mark_ready(prefix);
  };
  const Buffer own = in_.make(in_.activation_shape());
  const Tensor grad = grad_input != nullptr ? *grad_input : own.tensor();
  if (last()) {
    HeadBackward(saved, grad);
    ready("head");
  } else {
    in_.math.compute().copy_columns(*grad_output, 0, grad, 0, config_.hidden);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    blocks_[i].backward(saved.inputs[i], saved.blocks[i], grad);
    ready(NameOf(first_block_ + i));
  }
  if (first()) {
    embedding_->backward(saved.samples.ids, grad);
    ready("embedding");
  }
  if (completes) backwards_ = 0;
}

}  // namespace train_lm
