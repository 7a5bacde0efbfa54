#include "tutti/parallel/moe_layer.h"

namespace tutti::parallel {

MoELayer::MoELayer(ProcessGroup& batch, Compute& compute, const TopKRouterConfig& router,
                   MoEAlltoAllTokenDispatcher& dispatcher)
    : batch_(batch), compute_(compute), router_(compute, router), dispatcher_(dispatcher) {
  require_equal("the router's num_experts", router.num_experts, "the dispatcher's", dispatcher.config().num_experts);
  require_equal("the router's topk", router.topk, "the dispatcher's", dispatcher.config().topk);
}

MoELayer::State MoELayer::forward(const Tensor& tokens, const Tensor& logits, const Experts& experts,
                                  const Tensor& output) {
  State state;
  state.routing = router_.forward(logits);
  state.handle = dispatcher_.get_dispatch_layout(state.routing);
  state.load = load_statistics(state.routing);
  state.load.dropped = state.handle.dropped;
  state.load.all_reduce(batch_);
  state.aux_loss = router_.aux_loss(state.routing, state.load);
  state.expert_input = dispatcher_.dispatch(tokens, state.handle);
  const Buffer expert_output(compute_, state.expert_input.tensor().shape, tokens.dtype);
  experts(state.expert_input, state.handle.tokens_per_expert(), expert_output);
  state.combined = dispatcher_.combine(expert_output, state.routing.topk_weights, state.handle, output);
  return state;
}

void MoELayer::backward(const State& state, const Tensor& grad_output, const Experts& experts_backward,
                        const Tensor& grad_tokens, const Tensor& grad_logits) {
  const Buffer grad_weights(compute_, state.routing.topk_weights.tensor().shape);
  const Buffer grad_expert_output =
      dispatcher_.combine_backward(grad_output, state.combined, state.handle, grad_weights);
  const Buffer grad_expert_input(compute_, state.expert_input.tensor().shape, grad_output.dtype);
  experts_backward(grad_expert_output, state.handle.tokens_per_expert(), grad_expert_input);
  dispatcher_.dispatch_backward(grad_expert_input, state.handle, grad_tokens);
  router_.backward(state.routing, state.load, grad_weights, grad_logits);
}

}  // namespace tutti::parallel
