#include "interop/nccl/plug_ins/profiler_events.h"

#include <algorithm>
#include <array>

#include "interop/nccl/environment/choice_lists.h"
#include "interop/nccl/environment/debug_log.h"
#include "interop/nccl/environment/names.h"

namespace tutti::nccl {
namespace {

// The events below a call, as far as NCCL has such events. A plug-in that wants them needs their parents.
constexpr std::uint64_t kBelow = event::kProxyOperation | event::kProxyStep | event::kKernelChannel | event::kNetwork;
constexpr std::uint64_t kTasks = kBelow | event::kCollective | event::kMessage;
constexpr std::uint64_t kCalls =
    kTasks | event::kGroup | event::kGroupCall | event::kCollectiveCall | event::kMessageCall | event::kLaunch;

// The groups that this thread has opened.
struct OpenGroup {
  int depth = 0;
  std::shared_ptr<ProfiledGroup> events;  // null before the first call
};

OpenGroup& ThisThreads() {
  thread_local OpenGroup group;
  return group;
}

}  // namespace

int* ProfilerMask() {
  static int mask = 0;
  return &mask;
}

std::shared_ptr<ProfiledCommunicator> ProfiledCommunicator::Open(const ProfilerPlugIn& plug_in,
                                                                 const tuttiCommFacts_t& facts) {
  std::shared_ptr<ProfiledCommunicator> opened(new ProfiledCommunicator(plug_in, facts));
  const auto result = plug_in.init(facts, opened->name_.c_str(), ProfilerMask(), &opened->context_);
  if (result == ncclSuccess) {
    if (opened->context_ != nullptr) return opened;
    return nullptr;  // the plug-in leaves this communicator out
  }
  opened->context_ = nullptr;
  DebugLog::Get().Info(subsystem::kInit, "Profiler init failed with error '{}'. Continue without profiler.",
                       static_cast<int>(result));
  return nullptr;
}

ProfiledCommunicator::ProfiledCommunicator(const ProfilerPlugIn& plug_in, const tuttiCommFacts_t& facts)
    : plug_in_(plug_in),
      name_(facts.name == nullptr ? "" : facts.name),
      id_(facts.id),
      rank_(facts.rank),
      nranks_(facts.nranks) {}

ProfiledCommunicator::~ProfiledCommunicator() {
  if (context_ != nullptr) plug_in_.close(context_);
}

bool ProfiledCommunicator::Wants(std::uint64_t kinds) {
  const int mask = std::atomic_ref(*ProfilerMask()).load(std::memory_order_relaxed);
  return (static_cast<std::uint64_t>(static_cast<unsigned>(mask)) & kinds) != 0;
}

void* ProfiledCommunicator::Start(ProfilerEvent event) const {
  event.rank = rank_;
  event.name = name_.c_str();
  event.communicator = id_;
  return plug_in_.start(context_, event);
}

void ProfiledCommunicator::Stop(void* handle) const {
  if (handle != nullptr) plug_in_.stop(handle);
}

void ProfiledCommunicator::Record(void* handle, int state) const {
  if (handle != nullptr) plug_in_.record(handle, state, nullptr);
}

std::uint64_t ProfiledCommunicator::CountOf(int function) {
  return counts_[static_cast<std::size_t>(function) % counts_.size()].fetch_add(1, std::memory_order_relaxed);
}

ProfiledGroup::ProfiledGroup(std::shared_ptr<ProfiledCommunicator> first, int depth) : first_(std::move(first)) {
  if (!first_->knows_calls() || !ProfiledCommunicator::Wants(kCalls)) return;
  ProfilerEvent event;
  event.type = event::kGroupCall;
  event.depth = depth;
  call_ = first_->Start(event);
  first_->Record(call_, kGroupStartEnds);
}

ProfiledGroup::~ProfiledGroup() {
  Ends();
  for (const auto& [communicator, handle] : parts_) communicator->Stop(handle);
}

void ProfiledGroup::EndBegins() { first_->Record(call_, kGroupEndBegins); }

void ProfiledGroup::Ends() { first_->Stop(std::exchange(call_, nullptr)); }

void* ProfiledGroup::GroupOf(const std::shared_ptr<ProfiledCommunicator>& communicator) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(parts_, communicator, &Part::communicator);
  if (found != parts_.end()) return found->handle;
  ProfilerEvent event;
  event.type = event::kGroup;
  parts_.push_back({communicator, communicator->Start(event)});
  return parts_.back().handle;
}

ProfiledCall::ProfiledCall(std::shared_ptr<ProfiledCommunicator> communicator, const tuttiCall_t& call)
    : communicator_(std::move(communicator)), alone_(ThisThreads().depth == 0) {
  auto& open = ThisThreads();
  // As NCCL counts, a call opens a group of its own inside those of the user.
  if (alone_) {
    group_ = std::make_shared<ProfiledGroup>(communicator_, 1);
  } else {
    if (open.events == nullptr) open.events = std::make_shared<ProfiledGroup>(communicator_, open.depth + 1);
    group_ = open.events;
  }
  const std::string_view function = call.function;
  const bool message = function == "send" || function == "receive";
  event_.function = NcclFunctionName(function);
  event_.function_number = NcclFunctionNumber(function);
  event_.send = call.send;
  event_.receive = call.receive;
  event_.count = call.count;
  event_.type_number = call.datatype;
  event_.datatype = NcclTypeName(call.datatype);
  event_.op = call.op;
  event_.root = call.root;
  event_.stream = call.stream;
  event_.traffic = TrafficOf(event_.function_number, call.bytes, communicator_->nranks());
  event_.type = message ? event::kMessage : event::kCollective;
  const auto kind = message ? event::kMessageCall : event::kCollectiveCall;
  if (!communicator_->knows_calls() || !ProfiledCommunicator::Wants(kind | event_.type | kBelow)) return;
  ProfilerEvent called = event_;
  called.type = kind;
  called.parent = group_->call();
  call_ = communicator_->Start(called);
}

ProfiledCall::~ProfiledCall() {
  End();
  if (!returned_) Returns();  // it failed
}

void ProfiledCall::Returns() {
  returned_ = true;
  communicator_->Stop(call_);
  if (!alone_) return;
  group_->EndBegins();
  group_->Ends();
}

void ProfiledCall::Begin(const tuttiOffer_t& plan) {
  if (!ProfiledCommunicator::Wants(kTasks | event::kGroup)) return;
  ProfilerEvent event = event_;
  event.group = group_->GroupOf(communicator_);
  if (!ProfiledCommunicator::Wants(event_.type | kBelow)) return;
  event.parent = call_;
  if (event.type == event::kCollective) event.number = communicator_->CountOf(event.function_number);
  event.channels = plan.channels;
  event.algorithm = NcclAlgorithmName(plan.algorithm);
  event.algorithm_number = std::max(0, AlgorithmOf(plan.algorithm));
  event.protocol_number = std::max(0, ProtocolOf(plan.protocol));
  event.protocol = kProtocolNames[static_cast<std::size_t>(event.protocol_number)].data();
  task_ = communicator_->Start(event);
}

void ProfiledCall::End() { communicator_->Stop(std::exchange(task_, nullptr)); }

void ProfileGroupStart() { ++ThisThreads().depth; }

void ProfileGroupEndBegins() {
  const auto& group = ThisThreads();
  if (group.depth == 1 && group.events != nullptr) group.events->EndBegins();
}

void ProfileGroupEnds() {
  auto& group = ThisThreads();
  if (group.depth > 0 && --group.depth > 0) return;
  if (const auto events = std::exchange(group.events, nullptr)) events->Ends();
}

}  // namespace tutti::nccl
