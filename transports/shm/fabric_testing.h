// For tests: ranks that are threads of this process and meet without a network, and how each of them ends.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/file_descriptor.h"

namespace tutti::shm {

// Long enough for a loaded machine under a sanitizer; a test that reaches it has failed.
inline Deadline Ample() { return Deadline::After(std::chrono::seconds(60)); }

// The exchanges of a test, one after the other.
class ExchangeTable {
 public:
  explicit ExchangeTable(int size) : size_(static_cast<std::size_t>(size)), parts_(size_) {}

  std::vector<std::vector<std::byte>> Gather(int rank, std::span<const std::byte> mine) {
    std::unique_lock lock(mutex_);
    parts_[static_cast<std::size_t>(rank)].assign(mine.begin(), mine.end());
    const auto turn = turn_;
    if (++came_ == size_) {
      came_ = 0;
      gathered_ = parts_;
      ++turn_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return turn_ != turn || left_; });
    if (turn_ == turn) Throw(tuttiRemoteError, "another rank has left");
    return gathered_;
  }

  void Leave() {
    const std::lock_guard lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t size_, came_ = 0, turn_ = 0;
  bool left_ = false;
  std::vector<std::vector<std::byte>> parts_, gathered_;
};

// A file that names its owner.
inline FileDescriptor FileOf(int rank) {
  FileDescriptor file(memfd_create("tutti-test", MFD_CLOEXEC));
  EXPECT_EQ(pwrite(file.get(), &rank, sizeof rank, 0), static_cast<ssize_t>(sizeof rank));
  return file;
}

inline int RankIn(const FileDescriptor& file) {
  int rank = -1;
  EXPECT_EQ(pread(file.get(), &rank, sizeof rank, 0), static_cast<ssize_t>(sizeof rank));
  return rank;
}

// Runs `body` as `size` ranks, each in its own thread. When one of them throws, the others' exchanges throw, too, as
// the control plane's do. Returns what each rank threw, by rank; empty if nothing.
inline std::vector<std::string> RunThreadRanks(int size,
                                               const std::function<void(int rank, const AllGather& all_gather)>& body) {
  ExchangeTable table(size);
  std::vector<std::string> thrown(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, [&, rank](std::span<const std::byte> mine) { return table.Gather(rank, mine); });
      } catch (const Error& error) {
        thrown[static_cast<std::size_t>(rank)] = error.what();
        table.Leave();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return thrown;
}

}  // namespace tutti::shm
