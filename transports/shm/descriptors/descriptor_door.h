// How the ranks of one host meet at one of them: an abstract Unix socket with a random name, nothing in the file
// system. The lowest rank holds the door; the others knock.
//
// A thread accepts callers, so that strangers cannot fill the queue in front of the door. It checks the caller's user
// first, as the kernel reports it: another user's process is dropped before anything from it is read, and descriptors
// that it sends are never received. A member proves itself with a random token that came over the control plane.
//
// Thread-safety: one thread at a time; the door's own thread is internal.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/clocks/deadline.h"
#include "base/file_descriptor.h"

namespace tutti::shm {

// Sent by the rank that holds the door to all ranks, over the control plane, which is authenticated.
struct Invitation {
  std::array<unsigned char, 16> name;
  std::array<unsigned char, 32> token;
};

class DescriptorDoor {
 public:
  // Opens the door for these ranks. Throws tuttiSystemError.
  explicit DescriptorDoor(std::vector<int> expected);
  ~DescriptorDoor();
  DescriptorDoor(const DescriptorDoor&) = delete;
  DescriptorDoor& operator=(const DescriptorDoor&) = delete;

  const Invitation& invitation() const { return invitation_; }
  // Closes the door. Returns the connections by rank: one for every rank that lives and whose Knock() has returned one.
  std::map<int, FileDescriptor> Close();

 private:
  void TakeIn();
  void Admit(FileDescriptor socket);

  Invitation invitation_{};
  std::vector<int> expected_;
  FileDescriptor listener_;
  FileDescriptor stop_;                    // an eventfd
  std::map<int, FileDescriptor> members_;  // belongs to the thread until it has ended
  std::unique_ptr<std::thread> thread_;
};

// A connection to the rank `host`, which has recognised `rank`. Empty if its process is gone. Throws tuttiInvalidUsage
// if that process belongs to another user, tuttiTimeoutError, tuttiSystemError.
FileDescriptor Knock(const Invitation& invitation, int rank, int host, Deadline deadline);

}  // namespace tutti::shm
