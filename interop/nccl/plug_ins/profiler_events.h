// The events that a profiler plug-in gets, with NCCL's parents:
//
//   group of calls -> call of a collective -> collective
//                  -> call of a send or receive -> message
//
// A group of calls begins with its first call and ends with ncclGroupEnd; a call outside a group is a group of its own. A
// collective begins when its plan runs (on a GPU: is enqueued) and ends with it (on a GPU: when it is enqueued). Besides,
// the collectives and messages of a group and a communicator share an event of the kind `group`, which is their parent
// before version 5.
//
// Thread-safety: any thread; a ProfiledCall's functions one after the other.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interop/nccl/plug_ins/profiler_plug_in.h"

namespace tutti::nccl {

// The kinds of events that plug-ins want: they get its address, and may change it at any time.
int* ProfilerMask();

// One communicator's context of the plug-in.
class ProfiledCommunicator {
 public:
  // Null if the plug-in refuses it: the log says so, and the communicator works as without.
  static std::shared_ptr<ProfiledCommunicator> Open(const ProfilerPlugIn& plug_in, const tuttiCommFacts_t& facts);
  ~ProfiledCommunicator();
  ProfiledCommunicator(const ProfiledCommunicator&) = delete;
  ProfiledCommunicator& operator=(const ProfiledCommunicator&) = delete;

  // Whether the plug-in wants any of these kinds.
  static bool Wants(std::uint64_t kinds);
  // Null if it does not want it.
  void* Start(ProfilerEvent event) const;
  void Stop(void* handle) const;
  void Record(void* handle, int state) const;
  bool knows_calls() const { return plug_in_.knows_calls; }
  int nranks() const { return nranks_; }
  // How many collectives by this function came before.
  std::uint64_t CountOf(int function);

 private:
  ProfiledCommunicator(const ProfilerPlugIn& plug_in, const tuttiCommFacts_t& facts);

  const ProfilerPlugIn& plug_in_;
  std::string name_;
  std::uint64_t id_;
  int rank_, nranks_;
  void* context_ = nullptr;  // the plug-in's
  std::array<std::atomic<std::uint64_t>, 16> counts_{};
};

// The events of a group of calls. Lives until the group and its collectives and messages have ended.
class ProfiledGroup {
 public:
  ProfiledGroup(std::shared_ptr<ProfiledCommunicator> first, int depth);
  ~ProfiledGroup();
  ProfiledGroup(const ProfiledGroup&) = delete;
  ProfiledGroup& operator=(const ProfiledGroup&) = delete;

  void EndBegins();
  void Ends();
  void* call() const { return call_; }
  // The event of one communicator's collectives and messages, begun if there is none.
  void* GroupOf(const std::shared_ptr<ProfiledCommunicator>& communicator);

 private:
  struct Part {
    std::shared_ptr<ProfiledCommunicator> communicator;
    void* handle;
  };

  std::shared_ptr<ProfiledCommunicator> first_;  // of the event of the group's calls
  void* call_ = nullptr;
  std::mutex mutex_;  // guards the rest
  std::vector<Part> parts_;
};

// One call.
class ProfiledCall {
 public:
  ProfiledCall(std::shared_ptr<ProfiledCommunicator> communicator, const tuttiCall_t& call);
  ~ProfiledCall();
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

  // The user's call returns.
  void Returns();
  // Its collective, or message, begins and ends.
  void Begin(const tuttiOffer_t& plan);
  void End();

 private:
  std::shared_ptr<ProfiledCommunicator> communicator_;
  std::shared_ptr<ProfiledGroup> group_;
  bool alone_;  // the group is the call's own
  bool returned_ = false;
  ProfilerEvent event_;
  void* call_ = nullptr;
  void* task_ = nullptr;
};

// The thread's groups open and close.
void ProfileGroupStart();
void ProfileGroupEndBegins();
void ProfileGroupEnds();

}  // namespace tutti::nccl
