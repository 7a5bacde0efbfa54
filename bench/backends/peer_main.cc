// Entry point of the peers' worker executables, which tutti-bench starts.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "bench/worker/worker.h"

int main() {
  const auto orders = tutti::bench::TakeOrders();
  if (!orders) {
    fmt::print(stderr, "This program is a part of tutti-bench; run \"tutti-bench all_reduce --vs all\".\n");
    return EXIT_FAILURE;
  }
  return tutti::bench::WorkerMain(*orders, tutti::bench::MakeLibrary);
}
