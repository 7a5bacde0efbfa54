// The parts of a transformer language model that determine its cost, and the arithmetic of its parameters and
// operations.
//
// Thread-safety: value types.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::tools {

struct LanguageModel {
  std::string name;
  int layers = 0;
  double hidden = 0;
  int heads = 0;
  int kv_heads = 0;  // of keys and values (grouped-query attention); default: `heads`
  double ffn = 0;    // width of the MLP, or of one expert
  bool gated = false;
  double vocabulary = 0;
  double sequence = 0;   // tokens per sample
  int global_batch = 0;  // samples per step
  int experts = 0;       // per layer; 0: a plain MLP
  int top_k = 0;         // experts used per token

  // For one layer, in elements.
  double attention_parameters() const;
  double expert_parameters() const;  // one MLP
  double router_parameters() const;
  double embedding_parameters() const { return vocabulary * hidden; }  // one each for input and output
  double parameters() const;                                           // of the whole model

  // Floating-point operations of one token's forward pass: through a layer, and from the last layer to the loss. Counts
  // matrix multiplications only; attention is causal, so half of its square is computed.
  double layer_flops() const;
  double head_flops() const { return 2 * vocabulary * hidden; }
  // Forward and backward (twice the forward) of a step, without recomputing: the operations that "model FLOP/s" count.
  double step_flops() const;
};

// Parses JSON whose fields are named as above. Throws tuttiInvalidArgument with `source` and the reason: invalid JSON,
// or a field that is unknown, missing or out of range.
LanguageModel ParseLanguageModel(const std::string& text, const std::string& source);

}  // namespace tutti::tools
