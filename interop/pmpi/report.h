// What TUTTI_MPI_REPORT=1 prints at MPI_Finalize: how many calls ran over Tutti, and why the others did not.
//
// Thread-safety: Counts belong to a communicator, on which MPI allows one call at a time; the rest from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tutti::pmpi {

enum class Collective {
  allreduce,
  reduce,
  reduce_scatter,
  reduce_scatter_block,
  bcast,
  allgather,
  allgatherv,
  gather,
  scatter,
  alltoall,
  alltoallv,
  barrier,
};
constexpr std::size_t kCollectives = static_cast<std::size_t>(Collective::barrier) + 1;

enum class Way {
  tutti,
  no_data,       // MPI: nothing to send
  arithmetic,    // MPI: an operator or a type of which Tutti does not compute
  communicator,  // MPI: it has no communicator of Tutti
};
constexpr std::size_t kWays = static_cast<std::size_t>(Way::communicator) + 1;

class Counts {
 public:
  void Add(Collective collective, Way way) {
    ++counts_[static_cast<std::size_t>(collective)][static_cast<std::size_t>(way)];
  }
  void Add(const Counts& other);
  std::uint64_t of(Collective collective, Way way) const {
    return counts_[static_cast<std::size_t>(collective)][static_cast<std::size_t>(way)];
  }

 private:
  std::array<std::array<std::uint64_t, kWays>, kCollectives> counts_{};
};

// A communicator is freed. `standing`: what became of it, for a person; lives as long as the process.
void Record(const Counts& counts, const char* standing);
// A table over all recorded communicators.
std::string Report(const std::string& mpi, int rank, int ranks);

}  // namespace tutti::pmpi
