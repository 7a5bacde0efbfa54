// Processes that compute without pause on some cores, as another user's job would.
//
// Thread-safety: one thread.
#pragma once

#include <sys/types.h>

#include <vector>

namespace tutti::bench {

class BusyCores {
 public:
  // Starts `count` processes: on the last core that this process may use, on the one before it, and so on. Throws
  // std::system_error if one cannot start.
  explicit BusyCores(int count);
  ~BusyCores();
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;

 private:
  void End();

  std::vector<pid_t> processes_;
};

}  // namespace tutti::bench
