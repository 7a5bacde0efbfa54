#include "interop/pmpi/report.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

namespace tutti::pmpi {
namespace {

constexpr std::array<const char*, kCollectives> kNames = {
    "MPI_Allreduce", "MPI_Reduce",    "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
    "MPI_Bcast",     "MPI_Allgather", "MPI_Allgatherv",     "MPI_Gather",
    "MPI_Scatter",   "MPI_Alltoall",  "MPI_Alltoallv",      "MPI_Barrier"};

struct Records {
  std::mutex mutex;
  Counts counts;
  std::map<std::string, std::uint64_t> communicators;  // by standing
};
Records& TheRecords() {
  static Records records;
  return records;
}

}  // namespace

void Counts::Add(const Counts& other) {
  for (std::size_t i = 0; i < kCollectives; ++i) {
    for (std::size_t way = 0; way < kWays; ++way) counts_[i][way] += other.counts_[i][way];
  }
}

void Record(const Counts& counts, const char* standing) {
  auto& records = TheRecords();
  const std::lock_guard lock(records.mutex);
  records.counts.Add(counts);
  ++records.communicators[standing];
}

std::string Report(const std::string& mpi, int rank, int ranks) {
  auto& records = TheRecords();
  const std::lock_guard lock(records.mutex);
  auto text = fmt::format("tutti-mpi: rank {} of {}, on {}\n  {:<24} {:>12} {:>12} {:>14} {:>14}\n", rank, ranks, mpi,
                          "calls", "over Tutti", "MPI: no data", "MPI: operator", "MPI: comm");
  for (std::size_t i = 0; i < kCollectives; ++i) {
    const auto of = [&](Way way) { return records.counts.of(static_cast<Collective>(i), way); };
    if (of(Way::tutti) + of(Way::no_data) + of(Way::arithmetic) + of(Way::communicator) == 0) continue;
    text += fmt::format("  {:<24} {:>12} {:>12} {:>14} {:>14}\n", kNames[i], of(Way::tutti), of(Way::no_data),
                        of(Way::arithmetic), of(Way::communicator));
  }
  for (const auto& [standing, count] : records.communicators) {
    text += fmt::format("  {} communicator{}: {}\n", count, count == 1 ? "" : "s", standing);
  }
  return text;
}

}  // namespace tutti::pmpi
