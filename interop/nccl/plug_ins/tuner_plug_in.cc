#include "interop/nccl/plug_ins/tuner_plug_in.h"

#include <fmt/ranges.h>

#include <cmath>
#include <concepts>
#include <vector>

#include "interop/nccl/environment/debug_log.h"
#include "interop/nccl/environment/environment.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/plug_ins/plug_in_library.h"

namespace tutti::nccl {
namespace {

constexpr auto kSubsystems = subsystem::kInit | subsystem::kTuning;
// Tutti plans each call by itself, and a plan must not depend on where a rank's buffers are.
constexpr int kOneOperation = 1, kNotRegistered = 0;

bool IsIn(int algorithm, int protocol) {
  return algorithm >= 0 && algorithm < kAlgorithms && protocol >= 0 && protocol < kProtocols;
}

// The cheapest entry of a table that the plug-in has changed; nothing if it left it as it was. An entry that is no
// number, or negative, is no plan.
std::optional<std::pair<int, int>> CheapestIfChanged(const CostTable& before, const CostTable& after) {
  if (before == after) return std::nullopt;
  std::pair<int, int> cheapest{-1, -1};
  for (int a = 0; a < kAlgorithms; ++a) {
    for (int p = 0; p < kProtocols; ++p) {
      const float cost = after[a][p];
      if (!(cost >= 0)) continue;
      if (cheapest.first < 0 || cost < after[cheapest.first][cheapest.second]) cheapest = {a, p};
    }
  }
  return cheapest;
}

TunerAnswer Ask(const TunerV2& tuner, void* context, int function, std::size_t bytes, CostTable& costs) {
  TunerAnswer answer;
  int algorithm = -1, protocol = -1;
  const bool nvls = costs[kNvls][kSimple] != kNoPlan || costs[kNvlsTree][kSimple] != kNoPlan;
  const bool collnet = costs[kCollnetChain][kSimple] != kNoPlan;
  answer.result = tuner.choose(context, function, bytes, collnet ? 1 : 0, nvls ? 1 : 0, kOneOperation, &algorithm,
                               &protocol, &answer.channels);
  if (algorithm != -1 || protocol != -1) answer.chosen = {algorithm, protocol};
  return answer;
}

template <typename Tuner>
TunerAnswer Ask(const Tuner& tuner, void* context, int function, std::size_t bytes, CostTable& costs) {
  TunerAnswer answer;
  const CostTable before = costs;
  auto** const table = reinterpret_cast<float**>(&costs);  // NCCL's type for a matrix
  if constexpr (std::same_as<Tuner, TunerV3>) {
    answer.result =
        tuner.choose(context, function, bytes, kOneOperation, table, kAlgorithms, kProtocols, &answer.channels);
  } else {
    answer.result = tuner.choose(context, function, bytes, kOneOperation, table, kAlgorithms, kProtocols,
                                 kNotRegistered, &answer.channels);
  }
  answer.chosen = CheapestIfChanged(before, costs);
  return answer;
}

template <typename Tuner>
ncclResult_t Init(const Tuner& tuner, const tuttiCommFacts_t& facts, void** context) {
  const auto ranks = static_cast<std::size_t>(facts.nranks), nodes = static_cast<std::size_t>(facts.hosts);
  if constexpr (std::same_as<Tuner, TunerV5>) {
    NvlinkDomains domains{facts.hosts, facts.fewestRanksOfHost, facts.mostRanksOfHost};
    TunerConstants constants{};
    return tuner.init(context, facts.id, ranks, nodes, LogForPlugIn, &domains, &constants);
  } else {
    return tuner.init(ranks, nodes, LogForPlugIn, context);
  }
}

// Nothing if the library lacks this version, or the version lacks a function.
template <typename Tuner>
std::optional<TunerPlugIn> Find(const PlugInLibrary& library) {
  const auto* const tuner = library.Find<Tuner>(kTunerSymbol);
  if (tuner == nullptr) return std::nullopt;
  if (tuner->init == nullptr || tuner->choose == nullptr || tuner->close == nullptr) {
    DebugLog::Get().Warn(
        fmt::format("TUNER/Plugin: {}{} of {} lacks a function", kTunerSymbol, Tuner::kVersion, library.file()));
    return std::nullopt;
  }
  const char* const name = tuner->name == nullptr ? "without a name" : tuner->name;
  DebugLog::Get().Info(kSubsystems, "TUNER/Plugin: Using {} (v{})", name, Tuner::kVersion);
  return TunerPlugIn{fmt::format("{} (v{})", name, Tuner::kVersion),
                     [tuner](const tuttiCommFacts_t& facts, void** context) { return Init(*tuner, facts, context); },
                     [tuner](void* context, int function, std::size_t bytes, CostTable& costs) {
                       return Ask(*tuner, context, function, bytes, costs);
                     },
                     tuner->close};
}

std::optional<TunerPlugIn> Load() {
  auto& log = DebugLog::Get();
  const auto library = PlugInLibrary::Open("tuner", Environment::OfThisProcess().Value("NCCL_TUNER_PLUGIN"));
  if (!library) return std::nullopt;
  auto plug_in = Find<TunerV5>(*library);
  if (!plug_in) plug_in = Find<TunerV4>(*library);
  if (!plug_in) plug_in = Find<TunerV3>(*library);
  if (!plug_in) plug_in = Find<TunerV2>(*library);
  if (!plug_in) {
    log.Info(kSubsystems, "External tuner plugin {} is unsupported: it has no usable version 2 to 5", library->file());
  } else {
    log.Info(kSubsystems, "Successfully loaded external tuner plugin {}", library->file());
  }
  return plug_in;
}

std::string NameOf(int algorithm, int protocol) {
  if (!IsIn(algorithm, protocol)) return fmt::format("algorithm {} and protocol {}", algorithm, protocol);
  return fmt::format("{}/{}", kAlgorithmNames[static_cast<std::size_t>(algorithm)],
                     kProtocolNames[static_cast<std::size_t>(protocol)]);
}

}  // namespace

const TunerPlugIn* TheTunerPlugIn() {
  static const auto plug_in = Load();
  return plug_in ? &*plug_in : nullptr;
}

OfferTable TableOf(std::span<const tuttiOffer_t> offers) {
  OfferTable table;
  for (auto& row : table.costs) row.fill(kNoPlan);
  for (auto& row : table.cheapest) row.fill(-1);
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const int algorithm = AlgorithmOf(offers[i].algorithm), protocol = ProtocolOf(offers[i].protocol);
    if (!IsIn(algorithm, protocol)) continue;
    const auto us = static_cast<float>(offers[i].us);
    auto& cost = table.costs[algorithm][protocol];
    if (cost != kNoPlan && cost <= us) continue;
    cost = us;
    table.cheapest[algorithm][protocol] = static_cast<int>(i);
  }
  return table;
}

TunerOfCommunicator::~TunerOfCommunicator() {
  if (open_ && plug_in_.close(context_) != ncclSuccess) {
    DebugLog::Get().Info(kSubsystems | subsystem::kDestroy, "TUNER/Plugin: {} failed to close", plug_in_.name);
  }
}

void TunerOfCommunicator::Open(const tuttiCommFacts_t& facts) {
  const auto result = plug_in_.init(facts, &context_);
  if (result != ncclSuccess) {
    const bool known = result > ncclSuccess && result < ncclInProgress;
    Refuse(known ? result : ncclInternalError, "the tuner plug-in {} returned {} from init", plug_in_.name,
           static_cast<int>(result));
  }
  open_ = true;
}

void TunerOfCommunicator::SayOnce(const std::string& text) {
  if (said_.insert(text).second) DebugLog::Get().Info(kSubsystems, "TUNER/Plugin: {}", text);
}

int TunerOfCommunicator::Choose(const tuttiTunedCall_t& call, std::span<const tuttiOffer_t> offers, int usual) {
  const int function = FunctionOf(call.collective);
  if (function < 0) return -1;  // NCCL tunes five functions
  const auto name = kFunctionNames[static_cast<std::size_t>(function)];
  // NCCL counts the larger of the two buffers.
  const bool has_blocks = function == kAllGather || function == kReduceScatter;
  const std::size_t bytes = call.bytes * (has_blocks ? static_cast<std::size_t>(call.nranks) : 1);
  auto table = TableOf(offers);
  const auto answer = plug_in_.choose(context_, function, bytes, table.costs);
  if (answer.result != ncclSuccess) {
    SayOnce(fmt::format("{} returned {} for {}; the choice is Tutti's", plug_in_.name, static_cast<int>(answer.result),
                        name));
    return -1;
  }
  int chosen = usual;
  if (answer.chosen) {
    const auto [algorithm, protocol] = *answer.chosen;
    const int offered = IsIn(algorithm, protocol) ? table.cheapest[algorithm][protocol] : -1;
    if (offered < 0) {
      SayOnce(fmt::format("{} chose {} for {}, which Tutti does not have here; the choice is Tutti's", plug_in_.name,
                          NameOf(algorithm, protocol), name));
      return -1;
    }
    chosen = offered;
  }
  if (answer.channels == 0 || chosen < 0) return answer.chosen ? chosen : -1;
  const auto& wanted = offers[static_cast<std::size_t>(chosen)];
  if (!answer.chosen && wanted.channels == answer.channels) return -1;
  std::set<int> possible;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    // Another algorithm that looks the same to NCCL is another choice.
    if (offers[i].algorithm != wanted.algorithm || std::string_view(offers[i].protocol) != wanted.protocol) continue;
    if (offers[i].channels == answer.channels) return static_cast<int>(i);
    possible.insert(offers[i].channels);
  }
  SayOnce(fmt::format("{} asked for {} channels for {}, where there are plans with {}", plug_in_.name, answer.channels,
                      name, fmt::join(possible, ", ")));
  return answer.chosen ? chosen : -1;
}

}  // namespace tutti::nccl
