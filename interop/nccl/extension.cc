// Registers with Tutti what libnccl.so.2 adds: settings from NCCL's environment, the log in NCCL's shape, and plug-ins.
// It does so when the library is loaded; the environment is read when Tutti first needs it.
#include "tutti/extension.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>

#include "interop/nccl/environment/choice_lists.h"
#include "interop/nccl/environment/debug_log.h"
#include "interop/nccl/environment/environment.h"
#include "interop/nccl/environment/names.h"
#include "interop/nccl/failure.h"
#include "interop/nccl/plug_ins/profiler_events.h"
#include "interop/nccl/plug_ins/tuner_plug_in.h"
#include "interop/nccl/version.h"

namespace tutti::nccl {
namespace {

void WriteReason(char* why, std::size_t size, std::string_view text) {
  if (size == 0) return;
  why[text.copy(why, size - 1)] = '\0';
}

// Log subjects of Tutti, and the subsystems of NCCL that they are most like.
struct SubjectLike {
  const char* subject;
  std::uint64_t flags;
};
constexpr SubjectLike kSubjects[] = {{"init", subsystem::kInit},
                                     {"select", subsystem::kTuning},
                                     {"transport", subsystem::kNet},
                                     {"faults", subsystem::kInit | subsystem::kDestroy}};

bool HasOwnDebug() { return Environment::OfThisProcess().Value("TUTTI_DEBUG").has_value(); }

// The subjects that NCCL_DEBUG asks for.
const char* Debug() {
  static const std::string subjects = [] {
    std::string text;
    for (const auto& [subject, flags] : kSubjects) {
      if (DebugLog::Get().Enabled(Level::info, flags)) text += (text.empty() ? "" : ",") + std::string(subject);
    }
    return text;
  }();
  return subjects.empty() ? nullptr : subjects.c_str();
}

// NCCL's waits have no end; a dead peer, an abort, and calls that do not match are found without it. And programs rely on
// a stream to stand still behind a call that has failed, until they abort.
const char* OfNccl(std::string_view setting) {
  if (setting == "TUTTI_INIT_TIMEOUT_MS" || setting == "TUTTI_TIMEOUT_MS") return "0";
  return setting == "TUTTI_HOLD" ? "1" : nullptr;
}

const char* Setting(const char* name, const char** source) {
  if (std::string_view(name) == "TUTTI_DEBUG") {
    *source = "NCCL_DEBUG";
    return Debug();
  }
  const auto& settings = Environment::OfThisProcess().settings();
  const auto found = settings.find(std::string_view(name));
  if (found == settings.end()) return OfNccl(name);
  *source = found->second.source.data();  // a literal
  return found->second.text.c_str();
}

tuttiResult_t CheckEnvironment(char* why, std::size_t size) {
  const auto& problem = Environment::OfThisProcess().problem();
  if (!problem) return tuttiSuccess;
  WriteReason(why, size, problem->text);
  return static_cast<tuttiResult_t>(problem->code);
}

int TakeLine(const char* subject, const char* text) {
  if (HasOwnDebug()) return 0;
  for (const auto& [word, flags] : kSubjects) {
    if (std::string_view(subject) == word) DebugLog::Get().Info(flags, "{}", text);
  }
  return 1;
}

// Once in a process.
void Introduce(int rank) {
  static std::atomic<bool> introduced{false};
  auto& log = DebugLog::Get();
  const bool first = !introduced.exchange(true);
  // As NCCL, all ranks tell the version at INFO, and only rank 0 below.
  if (!first || (rank != 0 && !log.Enabled(Level::info, subsystem::kAll))) return;
  if (log.Enabled(Level::version, subsystem::kAll)) {
    const int version = VersionOrDefault();
    constexpr int kMajor = 10000, kMinor = 100;
    log.Write(Level::version,
              fmt::format("NCCL version {}.{}.{} (Tutti {}.{}.{})", version / kMajor, version % kMajor / kMinor,
                          version % kMinor, TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH));
  }
  for (const auto& remark : Environment::OfThisProcess().remarks()) log.Info(subsystem::kEnv, "{}", remark);
}

std::string Describe(const tuttiCommFacts_t& facts) {
  return fmt::format("comm {} rank {} nranks {} cudaDev {} busId {:x}", fmt::ptr(facts.comm), facts.rank, facts.nranks,
                     facts.device == TUTTI_DEVICE_NONE ? 0 : facts.device, facts.busId);
}

void Joining(const tuttiCommFacts_t* facts) {
  DebugLog::UseDevice(facts->device);
  Introduce(facts->rank);
  auto& log = DebugLog::Get();
  if (!log.Enabled(Level::info, subsystem::kInit)) return;
  if (facts->parent != nullptr) {
    log.Info(subsystem::kInit, "{} parent {} - Init START", Describe(*facts), fmt::ptr(facts->parent));
  } else {
    log.Info(subsystem::kInit, "[Rank {}] ncclCommInitRank {} commId {:#x} - Init START", facts->rank, Describe(*facts),
             facts->id);
  }
}

void Joined(const tuttiCommFacts_t* facts) {
  auto& log = DebugLog::Get();
  if (!log.Enabled(Level::info, subsystem::kInit | subsystem::kNet)) return;
  if (facts->network != tuttiTransportSelf) {
    const char* const network = facts->network == tuttiTransportVerbs ? "IB"
                                : facts->network == tuttiTransportUcx ? "UCX"
                                                                      : "Socket";
    log.Info(subsystem::kInit | subsystem::kNet, "Using network {}", network);
  }
  log.Info(subsystem::kInit,
           "{} coll channels, 0 collnet channels, 0 nvls channels, {} p2p channels, {} p2p channels per peer",
           facts->channels, facts->messageChannels, facts->messageChannels);
  if (facts->parent != nullptr) {
    log.Info(subsystem::kInit, "{} parent {} commId {:#x} - Init COMPLETE", Describe(*facts), fmt::ptr(facts->parent),
             facts->id);
  } else {
    log.Info(subsystem::kInit, "ncclCommInitRank {} commId {:#x} - Init COMPLETE", Describe(*facts), facts->id);
  }
}

void Ending(const tuttiCommFacts_t* facts) {
  DebugLog::Get().Info(subsystem::kInit | subsystem::kDestroy, "{} - Destroy COMPLETE", Describe(*facts));
}

int WantsPlans() { return DebugLog::Get().Enabled(Level::info, subsystem::kTuning) ? 1 : 0; }

void Planned(int rank, const tuttiTunedCall_t* call, const tuttiOffer_t* plan) {
  if (rank != 0) return;
  const int protocol = ProtocolOf(plan->protocol);
  DebugLog::Get().Info(subsystem::kTuning, "{}: {} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{0..{}}}",
                       NcclFunctionName(call->collective), call->bytes, NcclAlgorithmName(plan->algorithm),
                       kProtocolNames[static_cast<std::size_t>(protocol)], plan->channels - 1);
}

const char* TunerName() {
  const auto* const plug_in = TheTunerPlugIn();
  return plug_in == nullptr ? nullptr : plug_in->name.c_str();
}

tuttiResult_t OpenTuner(const tuttiCommFacts_t* facts, void** tuner, char* why, std::size_t size) {
  try {
    auto opened = std::make_unique<TunerOfCommunicator>(*TheTunerPlugIn());
    opened->Open(*facts);
    *tuner = opened.release();
    return tuttiSuccess;
  } catch (const Refusal& refusal) {
    WriteReason(why, size, refusal.what());
    return static_cast<tuttiResult_t>(refusal.code());
  }
}

void CloseTuner(void* tuner) {
  const std::unique_ptr<TunerOfCommunicator> closed(static_cast<TunerOfCommunicator*>(tuner));
}

int Choose(void* tuner, const tuttiTunedCall_t* call, const tuttiOffer_t* offers, int count, int usual) {
  return static_cast<TunerOfCommunicator*>(tuner)->Choose(*call, {offers, static_cast<std::size_t>(count)}, usual);
}

// The observer of a communicator is a share of its ProfiledCommunicator, because calls may outlive the communicator.
using Observer = std::shared_ptr<ProfiledCommunicator>;

void* Observe(const tuttiCommFacts_t* facts) {
  const auto* const plug_in = TheProfilerPlugIn();
  if (plug_in == nullptr) return nullptr;
  auto opened = ProfiledCommunicator::Open(*plug_in, *facts);
  return opened == nullptr ? nullptr : std::make_unique<Observer>(std::move(opened)).release();
}

void Unobserve(void* observer) { const std::unique_ptr<Observer> closed(static_cast<Observer*>(observer)); }

void* CallBegins(void* observer, const tuttiCall_t* call) {
  return std::make_unique<ProfiledCall>(*static_cast<const Observer*>(observer), *call).release();
}

void CallReturns(void* call) { static_cast<ProfiledCall*>(call)->Returns(); }

void OperationBegins(void* call, const tuttiOffer_t* plan) { static_cast<ProfiledCall*>(call)->Begin(*plan); }

void OperationEnds(void* call) { static_cast<ProfiledCall*>(call)->End(); }

void CallForgotten(void* call) { const std::unique_ptr<ProfiledCall> forgotten(static_cast<ProfiledCall*>(call)); }

[[maybe_unused]] const auto registered = [] {
  tuttiExtension_t hooks{};
  hooks.size = sizeof hooks;
  hooks.setting = Setting;
  hooks.check = CheckEnvironment;
  hooks.log = TakeLine;
  hooks.joining = Joining;
  hooks.joined = Joined;
  hooks.ending = Ending;
  hooks.wantsPlans = WantsPlans;
  hooks.planned = Planned;
  hooks.observe = Observe;
  hooks.unobserve = Unobserve;
  hooks.callBegins = CallBegins;
  hooks.callReturns = CallReturns;
  hooks.operationBegins = OperationBegins;
  hooks.operationEnds = OperationEnds;
  hooks.callForgotten = CallForgotten;
  hooks.groupStarts = ProfileGroupStart;
  hooks.groupEnds = ProfileGroupEndBegins;
  hooks.groupEnded = ProfileGroupEnds;
  hooks.tuner = TunerName;
  hooks.openTuner = OpenTuner;
  hooks.closeTuner = CloseTuner;
  hooks.choose = Choose;
  return tuttiExtend(&hooks);
}();

}  // namespace
}  // namespace tutti::nccl
