#include "bench/driver/busy_cores.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "bench/worker/pin.h"

namespace tutti::bench {
namespace {

[[noreturn]] void Compute(int core) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no trace is left if the bench dies
  PinToCore(core);
  volatile unsigned steps = 0;
  for (;;) steps = steps + 1;
}

}  // namespace

BusyCores::BusyCores(int count) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 0; i < count; ++i) {
    const pid_t process = ::fork();
    if (process == 0) Compute(cores - 1 - i % cores);
    if (process < 0) {
      const int error = errno;
      End();
      throw std::system_error(error, std::generic_category(), "cannot start a process that computes");
    }
    processes_.push_back(process);
  }
}

BusyCores::~BusyCores() { End(); }

void BusyCores::End() {
  for (const pid_t process : processes_) ::kill(process, SIGKILL);
  for (const pid_t process : processes_) ::waitpid(process, nullptr, 0);
}

}  // namespace tutti::bench
