// A thread that makes calls to a plug-in for all threads of the process.
//
// A plug-in may keep what it makes by the thread that asks for it: aws-ofi-nccl has a libfabric endpoint for each thread
// that calls `listen` or `connect`, and counts the tags of its connections from 1 in each. Libfabric's tcp provider gives
// a message that arrives before its receive to any endpoint of the domain that waits for its tag, so two endpoints of a
// process take each other's messages. All of a rank's threads drive its connections, and ranks may be threads of one
// process. Where one thread makes all those calls, there is one endpoint.
//
// Thread-safety: any thread. A forked child starts a thread of its own.
#pragma once

#include <memory>

#include "base/fork_safe_mutex.h"

namespace tutti::plugin {

class ControlThread {
 public:
  // Starts the thread, unless this process has it. Throws tuttiSystemError.
  void Start();
  // Calls `call` on the thread, waits for its end, and returns what it returned. REQUIRES: Start() has returned in this
  // process, and `call` does not throw.
  template <typename Call>
  auto Run(const Call& call) {
    decltype(call()) result{};
    const auto keep = [&] { result = call(); };
    RunJob({[](const void* job) { (*static_cast<const decltype(keep)*>(job))(); }, &keep});
    return result;
  }

 private:
  struct Job {
    void (*function)(const void* argument);
    const void* argument;
    bool done = false;
  };
  struct Worker;

  std::shared_ptr<Worker> Current();
  void RunJob(Job job);

  ForkSafeMutex mutex_;
  std::shared_ptr<Worker> worker_;  // shared with its thread, which never ends
};

}  // namespace tutti::plugin
