// Which communicators of MPI have one of Tutti, and when it is made. The decision is the same on all ranks: it rests on
// the communicator's calls, which MPI wants alike on all ranks, and on an agreement of all ranks by MPI itself.
//
// Thread-safety: any thread; a Communicator as MPI allows the calls on its communicator.
#pragma once

#include <mpi.h>

#include <memory>
#include <vector>

#include "interop/pmpi/below.h"
#include "interop/pmpi/group.h"
#include "interop/pmpi/report.h"
#include "tutti/tutti.h"

namespace tutti::pmpi {

class Communicator {
 public:
  Communicator(const Below& mpi, MPI_Comm comm);
  // Records its counts for the report.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // That of Tutti; null: calls go to MPI. Collective: every call that all ranks make alike asks once, and an early one
  // makes it.
  tuttiComm_t Tutti() {
    if (!decided_) [[unlikely]]
      Decide();
    return tutti_;
  }
  // Lets MPI move its messages on. REQUIRES: Tutti() is not null.
  void MoveMessages() const;
  int rank() const { return rank_; }
  std::size_t ranks() const { return static_cast<std::size_t>(ranks_); }
  Counts& counts() { return counts_; }

 private:
  class Progress;

  void Decide();
  // Why there shall be none, as far as this rank sees, and every rank sees the same; null: no reason.
  const char* ReasonOfKind() const;
  // The same for a reason that only this rank may have.
  static const char* ReasonOfThisRank();
  std::vector<int> RanksOfWorld() const;
  struct Agreement {
    const char* reason;  // why there shall be none; null: no reason
    Group::Way way;
  };
  // All ranks agree whether, and how, they make one. `state`: what this rank found.
  Agreement Agree(Group::State state) const;
  // Makes one of Tutti where all ranks call it.
  tuttiResult_t Meet(tuttiConfig_t& config, tuttiComm_t& made) const;
  bool Join(const Group::Claim& group, Group::Way way);
  void Decline(const char* reason);

  const Below& mpi_;
  const MPI_Comm comm_;
  int rank_ = 0;
  int ranks_ = 0;
  bool decided_ = false;
  int calls_ = 0;
  std::shared_ptr<Group> group_;
  tuttiComm_t tutti_ = nullptr;
  // A rank that waits in Tutti must move MPI's own messages on: another rank may wait for one of them before it comes to
  // the same collective.
  std::unique_ptr<Progress> progress_;
  const char* standing_;
  Counts counts_;
};

// Null: MPI refuses the handle, or is not initialised.
Communicator* CommunicatorOf(const Below& mpi, MPI_Comm comm);

// MPI is about to end: frees all of Tutti's communicators. Later calls go to MPI.
void EndCommunicators(const Below& mpi);

}  // namespace tutti::pmpi
