// How ranks of one host come together at one of them: an abstract Unix socket with a random name, nothing in the file
// system. The lowest rank holds the door; the others knock.
//
// A thread takes in those who knock, so that strangers cannot fill the queue in front of the door. The kernel's word on
// their user comes first: another user's process is shown out before anything of it is read, and descriptors that it
// sends are never received. A member proves itself with a random token that came over the control plane.
//
// Thread-safety: one thread at a time; the door's own thread is inside.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "transports/segment.h"

namespace tutti {

// From the rank that holds the door to everybody, over the control plane, which is authenticated.
struct Invitation {
  std::array<unsigned char, 16> name;
  std::array<unsigned char, 32> token;
};

class DescriptorDoor {
 public:
  // Open for these ranks. Throws tuttiSystemError.
  explicit DescriptorDoor(std::vector<int> expected);
  ~DescriptorDoor();
  DescriptorDoor(const DescriptorDoor&) = delete;
  DescriptorDoor& operator=(const DescriptorDoor&) = delete;

  const Invitation& invitation() const { return invitation_; }
  // Ends it. The connections to those who came, by rank: to all for whom Knock() has returned one, if they live.
  std::map<int, FileDescriptor> Close();

 private:
  void TakeIn();
  void Admit(FileDescriptor socket);

  Invitation invitation_{};
  std::vector<int> expected_;
  FileDescriptor listener_;
  FileDescriptor stop_;                    // an eventfd
  std::map<int, FileDescriptor> members_;  // the thread's until it has ended
  std::unique_ptr<std::thread> thread_;
};

// A connection to the rank `host`, who has recognised `rank`. Nothing if its process is gone.
// Throws tuttiInvalidUsage if that belongs to another user, tuttiTimeoutError, tuttiSystemError.
FileDescriptor Knock(const Invitation& invitation, int rank, int host, Deadline deadline);

}  // namespace tutti
