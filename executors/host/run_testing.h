// A rank with one peer on the same host, which is another process and does nothing. The test plays that peer: it writes
// anything into the peer's segment, as a peer with damaged memory or bad intent could.
//
// Thread-safety: one thread at a time.
#pragma once

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "base/file_descriptor.h"
#include "executors/host/run.h"

namespace tutti::testing {

class RankBesideStranger {
 public:
  static constexpr int kStranger = 1;

  explicit RankBesideStranger(int channels) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
    child_ = fork();
    if (child_ < 0) std::abort();
    const bool parent = child_ != 0;
    close(ends[parent ? 1 : 0]);
    socket_ = FileDescriptor(ends[parent ? 0 : 1]);
    if (!parent) BeTheStranger(channels);
    fabric_ = Make(0, channels);
  }
  ~RankBesideStranger() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  RankBesideStranger(const RankBesideStranger&) = delete;
  RankBesideStranger& operator=(const RankBesideStranger&) = delete;

  shm::Fabric& fabric() { return *fabric_; }

  // The slot that this rank empties next, in the stranger's ring for this rank or in its post, and the slot's number.
  struct Slot {
    ring::SlotHeader* header;
    std::byte* data;
    std::uint32_t number;
    void Publish(std::uint32_t tag) { header->flag.store(ring::SlotFlag(number, tag), std::memory_order_release); }
  };
  Slot Next(int channel, ring::Protocol protocol, bool post) {
    const int ring = post ? fabric_->nranks() : fabric_->rank();
    const auto shape = fabric_->layout().SlotShapeOf(protocol, ring);
    const auto count = Head(fabric_->rank(), channel, protocol, kStranger, post).load(std::memory_order_relaxed);
    auto* const at = fabric_->segment(kStranger) + fabric_->layout().RingOffset(channel, protocol, ring) +
                     std::size_t{ring::SlotIndex(count, shape.depth)} * shape.stride;
    return {reinterpret_cast<ring::SlotHeader*>(at), at + shape.data_offset, count + 1};
  }
  // The number of this rank's slots that the stranger says it has emptied.
  std::atomic<std::uint32_t>& Emptied(int channel, ring::Protocol protocol, bool post) {
    return Head(kStranger, channel, protocol, fabric_->rank(), post);
  }

 private:
  std::atomic<std::uint32_t>& Head(int reader, int channel, ring::Protocol protocol, int writer, bool post) {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(
        fabric_->segment(reader) + fabric_->layout().HeadOffset(channel, protocol, writer, post));
  }

  std::unique_ptr<shm::Fabric> Make(int rank, int channels) {
    const auto all_gather = [this, rank](std::span<const std::byte> mine) {
      std::uint64_t size = mine.size();
      std::vector<std::vector<std::byte>> all(2);
      all[static_cast<std::size_t>(rank)].assign(mine.begin(), mine.end());
      auto& theirs = all[static_cast<std::size_t>(1 - rank)];
      Send(&size, sizeof size);
      Send(mine.data(), mine.size());
      Receive(&size, sizeof size);
      theirs.resize(size);
      Receive(theirs.data(), theirs.size());
      return all;
    };
    Settings settings;
    settings.cma = "on";
    return std::make_unique<shm::Fabric>(rank, shm::Hosts{{0, 0}, {0, 0}}, channels, settings, all_gather,
                                         Deadline::Never());
  }
  [[noreturn]] void BeTheStranger(int channels) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto fabric = Make(kStranger, channels);
    for (;;) pause();
  }
  void Send(const void* data, std::size_t bytes) {
    if (bytes > 0 && send(socket_.get(), data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) std::abort();
  }
  void Receive(void* data, std::size_t bytes) {
    if (bytes > 0 && recv(socket_.get(), data, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) std::abort();
  }

  FileDescriptor socket_;
  pid_t child_ = 0;
  std::unique_ptr<shm::Fabric> fabric_;
};

// One window of the stranger, number kNumber.
class OneWindow : public host::WindowMap {
 public:
  static constexpr std::uint16_t kNumber = 3;

  explicit OneWindow(std::size_t bytes) : memory_(bytes) {}

  std::vector<std::byte>& memory() { return memory_; }
  const std::byte* Find(int rank, std::uint16_t window, std::uint64_t offset, std::size_t bytes) const override {
    if (rank != RankBesideStranger::kStranger || window != kNumber) return nullptr;
    if (offset > memory_.size() || bytes > memory_.size() - offset) return nullptr;
    return memory_.data() + offset;
  }

 private:
  std::vector<std::byte> memory_;
};

}  // namespace tutti::testing
