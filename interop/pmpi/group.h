// The communicators of MPI that have the same ranks, in whichever order. The second one and all later ones are split
// from a parent of Tutti's that carries no calls, and so cost no descriptor and no thread (tuttiCommSplit).
//
// Threads may make communicators of the same ranks at the same time, and in another order on another rank. So a thread
// claims the group, and all ranks agree on what they found, before any of them uses the parent.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::pmpi {

class Group {
 public:
  // Finds or makes the group of these ranks of MPI_COMM_WORLD. The group lives as long as somebody holds it.
  static std::shared_ptr<Group> Of(std::vector<int> ranks);
  Group() = default;
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // How the ranks make their next communicator.
  enum class Way { directly, by_a_new_parent, by_the_parent };
  // What one rank found when it made its next communicator.
  enum class State : std::uint64_t { first, no_parent, parent, in_use };
  // REQUIRES: the least and the greatest State of all ranks.
  static Way Choose(State least, State greatest);

  // A thread's use of the group.
  class Claim {
   public:
    explicit Claim(Group& group) : group_(group), lock_(group.mutex_, std::try_to_lock) {}
    State state() const;
    // REQUIRES: state() is not in_use.
    tuttiComm_t& parent() const { return group_.parent_; }
    // A communicator was made, in whatever way. REQUIRES: as above.
    void NoteMade() const { group_.any_ = true; }

   private:
    Group& group_;
    std::unique_lock<std::mutex> lock_;
  };

 private:
  std::mutex mutex_;
  tuttiComm_t parent_ = nullptr;
  bool any_ = false;  // there was a communicator
};

// Whether this process may hold enough further descriptors for a communicator of so many ranks, and for what the program
// opens itself. Says so on stderr the first time that it may not.
bool HasDescriptorsFor(int ranks);

}  // namespace tutti::pmpi
