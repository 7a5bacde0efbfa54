#include "tools/plan_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"

namespace tutti::tools {
namespace {

// More than anybody has; catches slips of the finger.
constexpr double kMost = 1e9;

class Reader {
 public:
  Reader(const nlohmann::json& json, const std::string& source) : json_(json), source_(source) {
    if (!json.is_object()) Throw(tuttiInvalidArgument, "{}: a model is an object with names and numbers", source);
  }

  // A whole number of at least `least`; `otherwise` where it is not told, unless that is below zero.
  double Number(const char* name, double least, double otherwise = -1) {
    known_.insert(name);
    if (!json_.contains(name)) {
      if (otherwise < 0) Throw(tuttiInvalidArgument, "{}: \"{}\" is missing", source_, name);
      return otherwise;
    }
    const auto& value = json_[name];
    if (!value.is_number_unsigned() || value.get<double>() < least || value.get<double>() > kMost) {
      Throw(tuttiInvalidArgument, "{}: \"{}\" is {}; it takes a whole number from {:.0f} to {:.0f}", source_, name,
            value.dump(), least, kMost);
    }
    return value.get<double>();
  }
  int Whole(const char* name, double least, double otherwise = -1) {
    return static_cast<int>(Number(name, least, otherwise));
  }
  bool Flag(const char* name) {
    known_.insert(name);
    if (!json_.contains(name)) return false;
    if (!json_[name].is_boolean()) {
      Throw(tuttiInvalidArgument, "{}: \"{}\" is {}; it takes true or false", source_, name, json_[name].dump());
    }
    return json_[name].get<bool>();
  }
  std::string Text(const char* name) {
    known_.insert(name);
    return json_.contains(name) && json_[name].is_string() ? json_[name].get<std::string>() : source_;
  }
  void RefuseOthers() const {
    for (const auto& [name, value] : json_.items()) {
      if (!known_.contains(name)) Throw(tuttiInvalidArgument, "{}: \"{}\" is no field of a model", source_, name);
    }
  }

 private:
  const nlohmann::json& json_;
  const std::string& source_;
  std::set<std::string> known_;
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
  const double scores = 2 * sequence * hidden;  // queries by keys and weights by values, half of each
  return 2 * used + scores;
}

double LanguageModel::step_flops() const {
  return 3 * global_batch * sequence * (layers * layer_flops() + head_flops());
}

LanguageModel ParseLanguageModel(const std::string& text, const std::string& source) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) Throw(tuttiInvalidArgument, "{} is no JSON", source);
  Reader read(json, source);
  LanguageModel model;
  model.name = read.Text("name");
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
    Throw(tuttiInvalidArgument, "{}: heads ({}) is not divisible by kv_heads ({})", source, model.heads,
          model.kv_heads);
  }
  if ((model.experts == 0) != (model.top_k == 0) || model.top_k > model.experts) {
    Throw(tuttiInvalidArgument, "{}: a token uses top_k ({}) of experts ({})", source, model.top_k, model.experts);
  }
  return model;
}

}  // namespace tutti::tools
