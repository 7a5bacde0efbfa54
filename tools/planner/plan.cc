// tutti plan: how to split a model over a cluster, what it would cost, and what rules out the alternatives.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/json.h"
#include "base/plain_text.h"
#include "base/settings/nearest_name.h"
#include "base/usage_error.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/planner/plan_ranking.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

// By compute capability: dense bf16 rate (V100: fp16) and memory, from NVIDIA's data sheets of V100 SXM2, A100 SXM and
// H100 SXM.
struct GpuSheet {
  int sm;
  double tflops;
  double memory_gb;
};
constexpr std::array<GpuSheet, 3> kSheets = {{{70, 125, 32}, {80, 312, 80}, {90, 989, 80}}};

struct PlanOptions {
  std::string model;
  std::vector<std::string> cluster;
  double tflops = 0, memory_gb = 0;
  // For whole steps, including communication and bubbles, Megatron-LM reaches 0.52 of an A100's peak (Narayanan et al.
  // 2021) and Llama 3 0.43 of an H100's. This is the share for multiplications alone:
  double efficiency = 0.6;
  double reserved_gb = 6;
  int most_tp = 0;
  int top = 10;
  std::string given;
  bool prices = false;
  bool json = false;
};

// "FILE x NODES", "FILE NODES" or "FILE".
Cluster ClusterOf(const PlanOptions& options, std::string& name) {
  auto words = options.cluster;
  std::erase(words, "x");
  Cluster cluster;
  name = words[0];
  if (!std::filesystem::exists(name) && std::filesystem::exists(name + ".xml")) name += ".xml";
  if (words.size() > 1) {
    const auto& number = words[1];
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), cluster.nodes);
    if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || cluster.nodes < 1) {
      ThrowUsage("\"{}\" is not a number of nodes; --cluster takes FILE x NODES", number);
    }
  }
  cluster.node = xml::ReadTopologyFile(name).system;
  const auto gpus = cluster.node.All(topology::DeviceKind::gpu, 0);
  if (gpus.empty()) Throw(tuttiInvalidArgument, "{} has no GPUs", name);
  cluster.gpus = static_cast<int>(gpus.size());
  const int sm = cluster.node.devices[static_cast<std::size_t>(gpus.front())].sm;
  const auto* sheet = &kSheets.front();
  for (const auto& each : kSheets) sheet = each.sm <= sm ? &each : sheet;
  cluster.tflops = options.tflops > 0 ? options.tflops : sheet->tflops;
  cluster.memory_gb = options.memory_gb > 0 ? options.memory_gb : sheet->memory_gb;
  cluster.efficiency = options.efficiency;
  cluster.reserved_gb = options.reserved_gb;
  return cluster;
}

// "tp=8,pp=16,zero=1": unnamed fields are 1 (zero: 0), and dp is what remains.
std::optional<Strategy> GivenStrategy(const std::string& text, int ranks) {
  if (text.empty()) return std::nullopt;
  Strategy strategy;
  int recompute = 0;
  const std::array<std::pair<std::string_view, int*>, 9> fields{{{"tp", &strategy.tp},
                                                                 {"cp", &strategy.cp},
                                                                 {"pp", &strategy.pp},
                                                                 {"dp", &strategy.dp},
                                                                 {"ep", &strategy.ep},
                                                                 {"chunks", &strategy.virtual_stages},
                                                                 {"zero", &strategy.zero},
                                                                 {"micro-batch", &strategy.micro_batch},
                                                                 {"recompute", &recompute}}};
  strategy.dp = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto word = std::string_view(text).substr(begin, end - begin);
    const auto equals = word.find('=');
    const auto field = std::ranges::find(fields, word.substr(0, equals), &std::pair<std::string_view, int*>::first);
    const auto value = equals == word.npos ? std::string_view() : word.substr(equals + 1);
    if (field == fields.end()) {
      std::vector<std::string_view> names;
      for (const auto& each : fields) names.push_back(each.first);
      ThrowUsage("--given: {}", UnknownName("name", word.substr(0, equals), names));
    }
    if (value.empty() ||
        std::from_chars(value.data(), value.data() + value.size(), *field->second).ptr != value.data() + value.size() ||
        *field->second < 0) {
      ThrowUsage("--given: {} is not NAME=NUMBER", Quoted(word));
    }
    begin = end + 1;
  }
  strategy.recompute = recompute != 0;
  const int rest = std::max(1, strategy.tp * strategy.cp * strategy.pp);
  if (strategy.dp == 0) strategy.dp = ranks / rest;
  if (strategy.ranks() != ranks) {
    ThrowUsage("--given: tp ({}) x cp ({}) x pp ({}) x dp ({}) is {}, but the cluster has {} GPUs", strategy.tp,
               strategy.cp, strategy.pp, strategy.dp, strategy.ranks(), ranks);
  }
  return strategy;
}

constexpr std::array<std::pair<const char*, double StepTime::*>, 7> kParts = {{{"compute", &StepTime::compute},
                                                                               {"tensor", &StepTime::tensor},
                                                                               {"experts", &StepTime::experts},
                                                                               {"context", &StepTime::context},
                                                                               {"bubble", &StepTime::bubble},
                                                                               {"sends", &StepTime::pipeline_sends},
                                                                               {"data", &StepTime::data}}};

void PrintHeading() {
  fmt::print("  {:>8} {:>8} {:>6}", "step s", "TFLOP/s", "GB");
  for (const auto& [name, part] : kParts) fmt::print(" {:>7}", name);
  fmt::print("  strategy\n");
}

void PrintRow(const Evaluated& row, const LanguageModel& model) {
  const double total = row.time.total();
  fmt::print("  {:8.2f} {:8.0f} {:6.1f}", total, model.step_flops() / total / row.strategy.ranks() / 1e12,
             row.memory.total() / 1e9);
  for (const auto& [name, part] : kParts) fmt::print(" {:6.1f}%", 100 * row.time.*part / total);
  fmt::print("  {}\n", ToString(row.strategy));
}

nlohmann::ordered_json JsonOf(const Evaluated& row, const LanguageModel& model) {
  const auto& s = row.strategy;
  const double total = row.time.total();
  nlohmann::ordered_json json = {{"strategy",
                                  {{"tp", s.tp},
                                   {"cp", s.cp},
                                   {"pp", s.pp},
                                   {"dp", s.dp},
                                   {"ep", s.ep},
                                   {"chunks", s.virtual_stages},
                                   {"zero", s.zero},
                                   {"micro_batch", s.micro_batch},
                                   {"recompute", s.recompute}}},
                                 {"step_s", total},
                                 {"tflops_of_a_gpu", model.step_flops() / total / s.ranks() / 1e12},
                                 {"memory_gb", row.memory.total() / 1e9}};
  for (const auto& [name, part] : kParts) json["parts_s"][name] = row.time.*part;
  return json;
}

std::string Memory(const MemoryNeed& need) {
  return fmt::format("{:.1f} GB: parameters {:.1f}, gradients {:.1f}, optimizer {:.1f}, activations {:.1f}",
                     need.total() / 1e9, need.parameters / 1e9, need.gradients / 1e9, need.optimizer / 1e9,
                     need.activations / 1e9);
}

// The parts in which `other` takes longer than `best`, largest difference first.
std::string Losses(const StepTime& other, const StepTime& best) {
  std::vector<std::pair<double, std::string>> losses;
  for (const auto& [name, part] : kParts) {
    const double more = other.*part - best.*part;
    if (more > 0.005 * best.total()) losses.emplace_back(-more, fmt::format("{} +{:.2f} s", name, more));
  }
  std::sort(losses.begin(), losses.end());
  std::vector<std::string> texts;
  for (const auto& [more, text] : losses) texts.push_back(text);
  return fmt::format("{}", fmt::join(texts, ", "));
}

// For values of each axis other than the winner's, best first: the fastest strategy that fits, or the least memory that
// is needed.
void PrintRuledOut(PlanRanking& ranking, const Evaluated& best, const std::vector<Strategy>& legal, double room) {
  constexpr std::size_t kMostValues = 6;
  constexpr std::array<std::pair<const char*, int Strategy::*>, 7> kAxes = {{{"tp", &Strategy::tp},
                                                                             {"cp", &Strategy::cp},
                                                                             {"pp", &Strategy::pp},
                                                                             {"ep", &Strategy::ep},
                                                                             {"zero", &Strategy::zero},
                                                                             {"chunks", &Strategy::virtual_stages},
                                                                             {"micro-batch", &Strategy::micro_batch}}};
  for (const auto& axis_and_name : kAxes) {
    const std::string name = axis_and_name.first;
    const auto axis = axis_and_name.second;
    std::set<int> values;
    for (const auto& strategy : legal) values.insert(strategy.*axis);
    values.erase(best.strategy.*axis);
    const std::size_t others = values.size();
    std::vector<Evaluated> rows;
    for (auto value = values.begin(); value != values.end();) {
      const auto fastest = ranking.Fastest(1, [&](const Strategy& strategy) { return strategy.*axis == *value; });
      rows.insert(rows.end(), fastest.begin(), fastest.end());
      value = fastest.empty() ? std::next(value) : values.erase(value);
    }
    std::ranges::stable_sort(rows, {}, [](const Evaluated& row) { return row.time.total(); });
    std::size_t printed = 0;
    for (const auto& row : rows) {
      if (printed++ == kMostValues) break;
      fmt::print("  {} {}: {:.2f} x as long ({}) as {}\n", name, row.strategy.*axis,
                 row.time.total() / best.time.total(), Losses(row.time, best.time), ToString(row.strategy));
    }
    // The remaining values fit nowhere: ordered by the memory they need.
    for (const auto& row : ranking.too_large()) {
      if (values.erase(row.strategy.*axis) == 0) continue;
      if (printed++ >= kMostValues) break;
      fmt::print("  {} {}: does not fit {:.0f} GB; the least is {} ({})\n", name, row.strategy.*axis, room / 1e9,
                 Memory(row.memory), ToString(row.strategy));
    }
    if (others > kMostValues) fmt::print("  {}: {} more values, all worse\n", name, others - kMostValues);
  }
}

void PrintGiven(PlanRanking& ranking, const Strategy& given, const Evaluated& best, const LanguageModel& model,
                double room) {
  fmt::print("\nGiven, {}: ", ToString(given));
  if (const auto why = WhyIllegal(given, model); !why.empty()) {
    fmt::print("illegal: {}\n", why);
    return;
  }
  const Evaluated row = ranking.Of(given);
  fmt::print("{:.2f} x as long as the winner, {} are faster; {}; it needs {}.\n", row.time.total() / best.time.total(),
             ranking.Faster(row.time.total()), row.memory.total() <= room ? "it fits" : "it does not fit",
             Memory(row.memory));
  PrintHeading();
  PrintRow(row, model);
  if (const auto losses = Losses(row.time, best.time); !losses.empty()) {
    fmt::print("  beside the winner: {}\n", losses);
  }
}

void Plan(const PlanOptions& options) {
  const auto model = ParseLanguageModel(ReadFile(options.model, JsonLimits().bytes), options.model);
  std::string name;
  const auto cluster = ClusterOf(options, name);
  const auto given = GivenStrategy(options.given, cluster.ranks());
  const auto legal = LegalStrategies(model, cluster.ranks(), options.most_tp > 0 ? options.most_tp : cluster.gpus);
  if (legal.empty()) {
    Throw(tuttiInvalidArgument, "no strategy is legal on {} GPUs; with data parallelism alone: {}", cluster.ranks(),
          WhyIllegal({.dp = cluster.ranks()}, model));
  }
  PlanRanking ranking(cluster, model, legal, options.prices ? TimeSource::price : TimeSource::simulation);
  const double room = cluster.room();
  if (ranking.fitting() == 0) {
    const auto& least = ranking.too_large().front();
    Throw(tuttiInvalidArgument, "none of {} legal strategies fits into {:.0f} GB; the smallest needs {} ({})",
          legal.size(), room / 1e9, Memory(least.memory), ToString(least.strategy));
  }
  const auto shown = ranking.Fastest(static_cast<std::size_t>(options.top), [](const Strategy&) { return true; });
  const auto& best = shown.front();
  if (options.json) {
    nlohmann::ordered_json json = {{"model", model.name},          {"gpus", cluster.ranks()},
                                   {"nodes", cluster.nodes},       {"legal", legal.size()},
                                   {"fitting", ranking.fitting()}, {"by", options.prices ? "prices" : "simulation"}};
    for (const auto& row : shown) json["fastest"].push_back(JsonOf(row, model));
    if (given) {
      const auto why = WhyIllegal(*given, model);
      json["given"] = why.empty() ? JsonOf(ranking.Of(*given), model) : nlohmann::ordered_json{{"illegal", why}};
    }
    return PrintJson(json);
  }
  fmt::print("{}: {:.1f} billion parameters, {} samples of {:.0f} tokens a step\n", model.name,
             model.parameters() / 1e9, model.global_batch, model.sequence);
  fmt::print(
      "{} GPUs: {} x {}; {:.0f} TFLOP/s each, at an efficiency of {:.2f}; {:.0f} GB, of which {:.0f} are kept free\n\n",
      cluster.ranks(), cluster.nodes, name, cluster.tflops, cluster.efficiency, cluster.memory_gb, cluster.reserved_gb);
  fmt::print("{} strategies are legal, {} fit. The fastest by {}, and how their steps spend their time:\n\n",
             legal.size(), ranking.fitting(), options.prices ? "the selector's prices" : "simulation");
  PrintHeading();
  for (const auto& row : shown) PrintRow(row, model);
  fmt::print("\nThe winner, {}, needs {}.\n", ToString(best.strategy), Memory(best.memory));
  if (given) PrintGiven(ranking, *given, best, model, room);
  fmt::print("\nWhy the others lose: the best strategy with each value that the winner does not have\n\n");
  PrintRuledOut(ranking, best, legal, room);
}

}  // namespace

void AddPlan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  auto* const command = app.add_subcommand(
      "plan", "find the fastest way to split a model's training over a cluster, and explain the choice");
  command->add_option("--model", options->model, "the model, as JSON (examples/models)")->required();
  command->add_option("--cluster", options->cluster, "FILE x NODES: a host as NCCL topology XML, and how many")
      ->required()
      ->expected(1, 3);
  command->add_option("--tflops", options->tflops, "peak bf16 TFLOP/s of a GPU; default: by its compute capability")
      ->check(CLI::PositiveNumber);
  command->add_option("--efficiency", options->efficiency, "fraction of the peak that matrix multiplications reach")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
  command->add_option("--memory", options->memory_gb, "GPU memory in GB; default: by its compute capability")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--reserve", options->reserved_gb,
                   "GB of GPU memory kept free for contexts, workspace and fragmentation")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--most-tp", options->most_tp, "largest tensor parallelism; default: the number of GPUs of a node")
      ->check(CLI::Range(1, 1024));
  command->add_option("--top", options->top, "number of the fastest strategies to show")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--prices", options->prices, "rank by the selector's prices alone, without simulating collectives");
  command->add_option("--given", options->given, "also evaluate this strategy: tp=8,pp=16,zero=1,...");
  AddJsonFlag(*command, options->json);
  command->callback([options] { Plan(*options); });
}

}  // namespace tutti::tools
