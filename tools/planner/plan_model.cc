#include "tools/planner/plan_model.h"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <set>

#include "base/files/json.h"
#include "base/plain_text.h"

namespace tutti::tools {
namespace {

// More than any model has; catches typing errors.
constexpr std::uint64_t kMost = 1'000'000'000;

class Reader {
 public:
  explicit Reader(const JsonValue& json) : json_(json) {
    if (!json.IsObject()) json.Refuse("a model is an object with names and numbers");
  }

  // A whole number of at least `least`; `otherwise` if it is missing, unless `otherwise` is negative.
  double Number(const char* name, std::uint64_t least, int otherwise = -1) {
    known_.insert(name);
    if (otherwise >= 0 && !json_.Has(name)) return otherwise;
    return static_cast<double>(json_.Whole(name, least, kMost));
  }
  int Whole(const char* name, std::uint64_t least, int otherwise = -1) {
    return static_cast<int>(Number(name, least, otherwise));
  }
  bool Flag(const char* name) {
    known_.insert(name);
    return json_.Flag(name, false);
  }
  std::string Text(const char* name, const std::string& otherwise) {
    known_.insert(name);
    return json_.Text(name, otherwise);
  }
  void RefuseOthers() const {
    for (const auto& [name, value] : json_.Entries()) {
      if (!known_.contains(name)) json_.Refuse("{} is not a field of a model", Quoted(name));
    }
  }

 private:
  const JsonValue& json_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace

double LanguageModel::attention_parameters() const {
  const double keys_and_values = 2 * hidden * hidden * kv_heads / heads;
  return 2 * hidden * hidden + keys_and_values;
}
double LanguageModel::expert_parameters() const { return (gated ? 3 : 2) * hidden * ffn; }
double LanguageModel::router_parameters() const { return experts * hidden; }

double LanguageModel::parameters() const {
  const double norms = 2 * hidden;
  const double layer =
      attention_parameters() + std::max(experts, 1) * expert_parameters() + router_parameters() + norms;
  return layers * layer + 2 * embedding_parameters() + hidden;
}

double LanguageModel::layer_flops() const {
  const double used = attention_parameters() + std::max(top_k, 1) * expert_parameters() + router_parameters();
  const double scores = 2 * sequence * hidden;  // queries by keys and weights by values, each half computed
  return 2 * used + scores;
}

double LanguageModel::step_flops() const {
  return 3 * global_batch * sequence * (layers * layer_flops() + head_flops());
}

LanguageModel ParseLanguageModel(const std::string& text, const std::string& source) {
  const JsonDocument document(text, source);
  const auto json = document.root();
  Reader read(json);
  LanguageModel model;
  model.name = read.Text("name", Printable(source));
  model.layers = read.Whole("layers", 1);
  model.hidden = read.Number("hidden", 1);
  model.heads = read.Whole("heads", 1);
  model.kv_heads = read.Whole("kv_heads", 1, model.heads);
  model.ffn = read.Number("ffn", 1);
  model.gated = read.Flag("gated");
  model.vocabulary = read.Number("vocabulary", 1);
  model.sequence = read.Number("sequence", 1);
  model.global_batch = read.Whole("global_batch", 1);
  model.experts = read.Whole("experts", 0, 0);
  model.top_k = read.Whole("top_k", 0, 0);
  read.RefuseOthers();
  if (model.heads % model.kv_heads != 0) {
    json.Refuse("heads ({}) is not divisible by kv_heads ({})", model.heads, model.kv_heads);
  }
  if ((model.experts == 0) != (model.top_k == 0) || model.top_k > model.experts) {
    json.Refuse("top_k ({}) must be from 1 to experts ({}), or both must be 0", model.top_k, model.experts);
  }
  return model;
}

}  // namespace tutti::tools
