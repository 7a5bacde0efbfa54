// Measures the cost of the NCCL interface over Tutti's own, and the growth of memory. Prints
//
//   layer     nanoseconds of a call of one rank, by tutti* and by nccl*, in turns; medians and quartiles
//   growth    resident memory while calls are made in many communicators, after each tenth of the calls
//
//   tutti-nccl-bench [CALLS]      of `growth`, default 1,000,000
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "interop/nccl/nccl.h"
#include "tutti/tutti.h"

namespace {

constexpr int kRounds = 201, kCallsOfARound = 20'000;
constexpr int kCommunicators = 16, kReports = 10;
constexpr std::size_t kElements = 2;

void Must(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "%s: %s\n", what, ncclGetLastError(nullptr));
  std::exit(1);
}

ncclComm_t Alone() {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  Must(ncclGetUniqueId(&id), "ncclGetUniqueId");
  Must(ncclCommInitRank(&comm, 1, id, 0), "ncclCommInitRank");
  return comm;
}

template <typename Call>
double NanosecondsOf(Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCallsOfARound; ++i) call();
  const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
  return passed.count() / kCallsOfARound;
}

void Print(const char* name, std::vector<double> rounds) {
  std::sort(rounds.begin(), rounds.end());
  const auto at = [&](std::size_t quarter) { return rounds[rounds.size() * quarter / 4]; };
  std::printf("layer %-22s %7.1f ns (%.1f - %.1f)\n", name, at(2), at(1), at(3));
}

void MeasureLayer(ncclComm_t comm) {
  auto* const ours = reinterpret_cast<tuttiComm_t>(comm);
  float in[kElements] = {1, 2}, out[kElements] = {};
  std::vector<double> tutti, nccl, configured;
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  for (int round = 0; round < kRounds; ++round) {
    tutti.push_back(NanosecondsOf([&] {
      Must(tuttiAllReduce(in, out, kElements, tuttiFloat32, tuttiSum, ours, nullptr), "tuttiAllReduce");
    }));
    nccl.push_back(NanosecondsOf(
        [&] { Must(ncclAllReduce(in, out, kElements, ncclFloat, ncclSum, comm, nullptr), "ncclAllReduce"); }));
    configured.push_back(NanosecondsOf([&] {
      Must(ncclAllReduceConfig(in, out, kElements, ncclFloat, ncclSum, comm, nullptr, &config), "ncclAllReduceConfig");
    }));
  }
  Print("tuttiAllReduce", tutti);
  Print("ncclAllReduce", nccl);
  Print("ncclAllReduceConfig", configured);
}

long ResidentKiB() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  constexpr long kKiB = 1024;
  return resident * (sysconf(_SC_PAGESIZE) / kKiB);
}

// Calls of every kind that could leave something behind: collectives of changing sizes, groups, operators, windows.
void MeasureGrowth(long calls) {
  std::vector<ncclComm_t> comms;
  for (int c = 0; c < kCommunicators; ++c) comms.push_back(Alone());
  constexpr std::size_t kBytes = 1 << 16;
  void* memory = nullptr;
  Must(ncclMemAlloc(&memory, kBytes), "ncclMemAlloc");
  auto* const data = static_cast<float*>(memory);
  constexpr long kSizes = 64, kOperatorEvery = 16, kWindowEvery = 64, kGroupEvery = 8;
  float two = 2;
  for (long i = 0; i <= calls; ++i) {
    if (i % (calls / kReports) == 0) std::printf("growth %9ld calls: %ld KiB\n", i, ResidentKiB());
    const ncclComm_t comm = comms[static_cast<std::size_t>(i % kCommunicators)];
    const auto count = static_cast<std::size_t>(1 + i / kCommunicators % kSizes);
    auto op = ncclSum;
    if (i % kOperatorEvery == 0) {
      Must(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, comm), "ncclRedOpCreatePreMulSum");
    }
    if (i % kGroupEvery == 0) Must(ncclGroupStart(), "ncclGroupStart");
    Must(ncclAllReduce(data, data, count, ncclFloat, op, comm, nullptr), "ncclAllReduce");
    if (i % kGroupEvery == 0) Must(ncclGroupEnd(), "ncclGroupEnd");
    if (op != ncclSum) Must(ncclRedOpDestroy(op, comm), "ncclRedOpDestroy");
    if (i % kWindowEvery == 0) {
      ncclWindow_t window = nullptr;
      Must(ncclCommWindowRegister(comm, memory, kBytes, &window, NCCL_WIN_DEFAULT), "ncclCommWindowRegister");
      Must(ncclCommWindowDeregister(comm, window), "ncclCommWindowDeregister");
    }
  }
  for (const ncclComm_t comm : comms) Must(ncclCommDestroy(comm), "ncclCommDestroy");
  Must(ncclMemFree(memory), "ncclMemFree");
}

}  // namespace

int main(int argc, char** argv) {
  constexpr long kCalls = 1'000'000;
  const long calls = argc > 1 ? std::atol(argv[1]) : kCalls;
  if (calls < kReports) {
    std::fprintf(stderr, "usage: tutti-nccl-bench [CALLS], at least %d\n", kReports);
    return 2;
  }
  const ncclComm_t comm = Alone();
  MeasureLayer(comm);
  Must(ncclCommDestroy(comm), "ncclCommDestroy");
  MeasureGrowth(calls);
  return 0;
}
