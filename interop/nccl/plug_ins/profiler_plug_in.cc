#include "interop/nccl/plug_ins/profiler_plug_in.h"

#include <concepts>
#include <optional>

#include "interop/nccl/environment/debug_log.h"
#include "interop/nccl/environment/environment.h"
#include "interop/nccl/plug_ins/plug_in_library.h"

namespace tutti::nccl {
namespace {

// The members that every version has under one name.
template <typename Event>
Event Begun(const ProfilerEvent& event) {
  Event filled{};
  filled.type = static_cast<decltype(filled.type)>(event.type);
  filled.parent = event.parent;
  filled.rank = event.rank;
  return filled;
}

template <typename Collective>
void FillCollective(const ProfilerEvent& event, Collective& filled) {
  filled.number = event.number;
  filled.send = event.send;
  filled.receive = event.receive;
  filled.count = event.count;
  filled.root = event.root;
  filled.channels = static_cast<std::uint8_t>(event.channels);
  if constexpr (requires { filled.op; }) {
    filled.function = static_cast<std::uint8_t>(event.function_number);
    filled.type = static_cast<std::uint8_t>(event.type_number);
    filled.op = static_cast<std::uint32_t>(event.op);
    filled.algorithm = static_cast<std::uint8_t>(event.algorithm_number);
    filled.protocol = static_cast<std::uint8_t>(event.protocol_number);
    filled.nvls = event.algorithm_number == kNvls ? 1 : 0;
  } else {
    filled.function = event.function;
    filled.type = event.datatype;
    filled.algorithm = event.algorithm;
    filled.protocol = event.protocol;
  }
  if constexpr (requires { filled.traffic; }) filled.traffic = event.traffic;
  if constexpr (requires { filled.group; }) filled.group = event.group;
  if constexpr (requires { filled.communicator; }) {
    filled.name = event.name;
    filled.communicator = event.communicator;
  }
}

template <typename Message>
void FillMessage(const ProfilerEvent& event, Message& filled) {
  filled.buffer = event.receive != nullptr ? event.receive : const_cast<void*>(event.send);  // NCCL has one field
  filled.count = event.count;
  filled.peer = event.root;
  if constexpr (std::same_as<decltype(filled.function), std::uint8_t>) {
    filled.function = static_cast<std::uint8_t>(event.function_number);
    filled.type = static_cast<std::uint8_t>(event.type_number);
  } else {
    filled.function = event.function;
    filled.type = event.datatype;
  }
  if constexpr (requires { filled.channels; }) filled.channels = static_cast<std::uint8_t>(event.channels);
  if constexpr (requires { filled.group; }) filled.group = event.group;
  if constexpr (requires { filled.communicator; }) {
    filled.name = event.name;
    filled.communicator = event.communicator;
  }
}

void FillCall(const ProfilerEvent& event, EventV6& filled) {
  if (event.type == event::kGroupCall) filled.group_call.depth = event.depth;
  if (event.type == event::kCollectiveCall) {
    filled.collective_call = {event.function, event.count, event.datatype, event.root, event.stream, false};
  }
  if (event.type == event::kMessageCall) {
    filled.message_call = {event.function, event.count, event.datatype, event.stream, false};
  }
}

template <typename Event>
Event Described(const ProfilerEvent& event) {
  auto filled = Begun<Event>(event);
  if (event.type == event::kCollective) FillCollective(event, filled.collective);
  if (event.type == event::kMessage) FillMessage(event, filled.message);
  if constexpr (std::same_as<Event, EventV6>) {
    FillCall(event, filled);
  } else if (event.type != event::kGroup) {
    filled.parent = event.group;
  }
  return filled;
}

template <typename Profiler>
ncclResult_t Init(const Profiler& profiler, const tuttiCommFacts_t& facts, const char* name, int* mask,
                  void** context) {
  if constexpr (std::same_as<decltype(profiler.init), ProfilerInitV5>) {
    return profiler.init(context, facts.id, mask, name, facts.hosts, facts.nranks, facts.rank, LogForPlugIn);
  } else if constexpr (std::same_as<decltype(profiler.init), ProfilerInitV4>) {
    return profiler.init(context, mask, name, facts.id, facts.hosts, facts.nranks, facts.rank, LogForPlugIn);
  } else {
    return profiler.init(context, mask);
  }
}

// Nothing if the library lacks this version, or the version lacks a function.
template <typename Profiler>
std::optional<ProfilerPlugIn> FindProfiler(const PlugInLibrary& library) {
  const auto* const profiler = library.Find<Profiler>(kProfilerSymbol);
  if (profiler == nullptr) return std::nullopt;
  const auto& functions = profiler->functions;
  if (profiler->init == nullptr || functions.start == nullptr || functions.stop == nullptr ||
      functions.record == nullptr || functions.close == nullptr) {
    DebugLog::Get().Warn(fmt::format("PROFILER/Plugin: {}{} of {} lacks a function", kProfilerSymbol,
                                     Profiler::kVersion, library.file()));
    return std::nullopt;
  }
  const char* const name = profiler->name == nullptr ? "without a name" : profiler->name;
  DebugLog::Get().Info(subsystem::kInit, "PROFILER/Plugin: Loaded {} (v{})", name, Profiler::kVersion);
  return ProfilerPlugIn{fmt::format("{} (v{})", name, Profiler::kVersion),
                        Profiler::kVersion >= 5,
                        [profiler](const tuttiCommFacts_t& facts, const char* comm, int* mask, void** context) {
                          return Init(*profiler, facts, comm, mask, context);
                        },
                        [start = functions.start](void* context, const ProfilerEvent& event) {
                          auto described = Described<typename Profiler::Event>(event);
                          void* handle = nullptr;
                          return start(context, &handle, &described) == ncclSuccess ? handle : nullptr;
                        },
                        functions.stop,
                        functions.record,
                        functions.close};
}

std::optional<ProfilerPlugIn> LoadProfiler() {
  const auto library = PlugInLibrary::Open("profiler", Environment::OfThisProcess().Value("NCCL_PROFILER_PLUGIN"));
  if (!library) return std::nullopt;
  auto plug_in = FindProfiler<ProfilerV6>(*library);
  if (!plug_in) plug_in = FindProfiler<ProfilerV5>(*library);
  if (!plug_in) plug_in = FindProfiler<ProfilerV4>(*library);
  if (!plug_in) plug_in = FindProfiler<ProfilerV3>(*library);
  if (!plug_in) plug_in = FindProfiler<ProfilerV2>(*library);
  if (!plug_in) plug_in = FindProfiler<ProfilerV1>(*library);
  DebugLog::Get().Info(subsystem::kInit, "{} external profiler plugin {}",
                       plug_in ? "Successfully loaded" : "There is no usable version in", library->file());
  return plug_in;
}

}  // namespace

const ProfilerPlugIn* TheProfilerPlugIn() {
  static const auto plug_in = LoadProfiler();
  return plug_in ? &*plug_in : nullptr;
}

}  // namespace tutti::nccl
