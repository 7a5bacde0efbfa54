// A transformer language model as far as its cost goes, and the arithmetic of its parameters and operations.
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
  int kv_heads = 0;  // of keys and values (grouped-query attention); `heads` if not told
  double ffn = 0;    // width of the MLP, or of one expert
  bool gated = false;
  double vocabulary = 0;
  double sequence = 0;   // tokens of a sample
  int global_batch = 0;  // samples of a step
  int experts = 0;       // of a layer; 0: a plain MLP
  int top_k = 0;         // experts that a token uses

  // Of one layer, in elements.
  double attention_parameters() const;
  double expert_parameters() const;  // one MLP
  double router_parameters() const;
  double embedding_parameters() const { return vocabulary * hidden; }  // input and output have one each
  double parameters() const;                                           // of the whole model

  // Floating-point operations of one token's forward pass: through a layer, and from the last layer to the loss. Matrix
  // multiplications only; attention is causal, so half of its square is computed.
  double layer_flops() const;
  double head_flops() const { return 2 * vocabulary * hidden; }
  // Forward and backward (twice the forward) of a step, without recomputing: what a "model FLOP/s" counts.
  double step_flops() const;
};

// JSON: the fields above by their names. Throws tuttiInvalidArgument with `source` and the reason: no JSON, a field
// unknown, missing or out of range.
LanguageModel ParseLanguageModel(const std::string& text, const std::string& source);

}  // namespace tutti::tools
