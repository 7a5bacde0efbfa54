// One rank of tests/host_faults_test.sh: reduces in a loop, checks every result, and tells what ended it.
//
//   tutti_host_rank SECONDS BYTES [LATE]     on standard output: "rank 3 runs", then "rank 3 is done: N operations", or
//                                            "rank 3 failed after 812 ms of waiting: remote error: ..."
// The last rank comes LATE seconds late to the first operation.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace {

using Clock = std::chrono::steady_clock;

double MsSince(Clock::time_point then) {
  return std::chrono::duration<double, std::milli>(Clock::now() - then).count();
}

void Say(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  const auto seconds = std::chrono::seconds(std::atoi(argv[1]));
  const std::size_t count = static_cast<std::size_t>(std::atoll(argv[2])) / sizeof(float);
  const std::string name = fmt::format("rank {}", std::getenv("RANK") == nullptr ? "?" : std::getenv("RANK"));
  tuttiComm_t comm = nullptr;
  auto called = Clock::now();
  tuttiResult_t result = tuttiCommInitEnv(&comm, nullptr);
  int rank = 0, ranks = 0;
  if (result == tuttiSuccess) result = tuttiCommUserRank(comm, &rank);
  if (result == tuttiSuccess) result = tuttiCommCount(comm, &ranks);
  if (argc == 4 && rank + 1 == ranks) std::this_thread::sleep_for(std::chrono::seconds(std::atoi(argv[3])));
  std::vector<float> data(count + 1);
  long operations = 0;
  const auto end = Clock::now() + seconds;
  // All ranks stop together: the last element says that rank 0 wants to.
  for (bool more = true; result == tuttiSuccess && more;) {
    for (std::size_t i = 0; i < count; ++i)
      data[i] = static_cast<float>((i + static_cast<std::size_t>(operations)) % 512 + static_cast<std::size_t>(rank));
    data[count] = rank == 0 && Clock::now() >= end ? 1.0F : 0.0F;
    called = Clock::now();
    result = tuttiAllReduce(data.data(), data.data(), count + 1, tuttiFloat, tuttiSum, comm, nullptr);
    if (result != tuttiSuccess) break;
    for (std::size_t i = 0; i < count; ++i) {
      const auto all = static_cast<std::size_t>(ranks);
      const float right =
          static_cast<float>((i + static_cast<std::size_t>(operations)) % 512 * all + all * (all - 1) / 2);
      if (data[i] == right) continue;
      Say(fmt::format("{} has a wrong result: element {} of operation {} is {}, not {}", name, i, operations, data[i],
                      right));
      return 3;
    }
    if (operations++ == 0) Say(name + " runs");
    more = data[count] == 0;
  }
  if (result == tuttiSuccess) {
    Say(fmt::format("{} is done: {} operations", name, operations));
  } else {
    Say(fmt::format("{} failed after {:.0f} ms of waiting: {}: {}", name, MsSince(called), tuttiGetErrorString(result),
                    tuttiGetLastError(comm)));
  }
  if (comm != nullptr) tuttiCommDestroy(comm);
  return result == tuttiSuccess ? 0 : 1;
}
