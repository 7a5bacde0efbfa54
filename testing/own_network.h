// A network namespace of the test's own: loopback, and whatever the test adds with ip(8).
//
// During an object's lifetime, the calling thread, and the processes that it forks, are in the namespace.
// Thread-safety: an object belongs to the thread that made it.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace tutti::testing {

class OwnNetwork {
 public:
  // `commands`: arguments of ip(8).
  explicit OwnNetwork(const std::vector<std::string>& commands = {})
      : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    if (before_ < 0 || unshare(CLONE_NEWNET) != 0) {
      why_not_ = "it takes root to make a network namespace";
      return;
    }
    entered_ = true;
    Run("link set lo up");
    for (const auto& command : commands) Run(command);
  }
  OwnNetwork(const OwnNetwork&) = delete;
  OwnNetwork& operator=(const OwnNetwork&) = delete;
  ~OwnNetwork() {
    if (entered_ && setns(before_, CLONE_NEWNET) != 0) abort();
    if (before_ >= 0) close(before_);
  }

  // Empty, or why a test that needs the namespace must be skipped.
  const std::string& why_not() const { return why_not_; }

 private:
  void Run(const std::string& command) {
    if (why_not_.empty() && std::system(("ip " + command + " 2>&1").c_str()) != 0) {
      why_not_ = "this command failed: ip " + command;
    }
  }

  int before_;
  bool entered_ = false;
  std::string why_not_;
};

}  // namespace tutti::testing
