// A layer of experts: route, dispatch, compute, combine.
//
// Sources: Shazeer et al. 2017, "Outrageously Large Neural Networks"; Megatron-Core's MoELayer.
//
// The application has the experts, and the router's logits: tokens times a weight that is equal on all ranks.
//
// Thread-safety: one thread at a time. Several forwards may come before their backwards, each with its own state.
#pragma once

#include <functional>
#include <vector>

#include "tutti/parallel/token_dispatcher.h"

namespace tutti::parallel {

class TUTTI_API MoELayer {
 public:
  // input and output [rows, hidden_size]: the first tokens_per_expert[0] rows are the first local expert's, and so on.
  // Backward gets the gradient of the output and writes that of the input.
  using Experts =
      std::function<void(const Tensor& input, const std::vector<std::size_t>& tokens_per_expert, const Tensor& output)>;

  // The results of a forward that its backward pass needs, or a caller may want.
  struct State {
    Routing routing;
    LoadStatistics load;  // of the batch
    float aux_loss = 0;   // of this rank's tokens
    DispatchHandle handle;
    Buffer expert_input;
    Combined combined;
  };

  // Throws Error unless `router` and `dispatcher` have equally many experts and choices. `batch`: the ranks that share
  // a batch, over which its load is counted. All outlive this.
  MoELayer(ProcessGroup& batch, Compute& compute, const TopKRouterConfig& router,
           MoEAlltoAllTokenDispatcher& dispatcher);

  // Collective. tokens and output [tokens, hidden_size], logits [tokens, num_experts].
  State forward(const Tensor& tokens, const Tensor& logits, const Experts& experts, const Tensor& output);
  // grad_tokens is the gradient through the experts; the application adds the one through the logits.
  void backward(const State& state, const Tensor& grad_output, const Experts& experts_backward,
                const Tensor& grad_tokens, const Tensor& grad_logits);

 private:
  ProcessGroup& batch_;
  Compute& compute_;
  TopKRouter router_;
  MoEAlltoAllTokenDispatcher& dispatcher_;
};

}  // namespace tutti::parallel
