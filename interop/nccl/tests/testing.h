// Shared by the tests of libnccl.so.2: ranks that join by NCCL's calls, and checks of results.
//
// Thread-safety: pure functions; a Comm belongs to its thread.
#pragma once

#include <bit>
#include <utility>

#include "interop/nccl/nccl.h"
#include "testing/ranks.h"

namespace tutti::nccl::testing {

using tutti::testing::Rank;
using tutti::testing::RunAlone;
using tutti::testing::RunRanks;

// Succeeds, or fails with the message of this thread's last failure.
inline ::testing::AssertionResult Ok(ncclResult_t result) {
  if (result == ncclSuccess) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << ncclGetErrorString(result) << ": " << ncclGetLastError(nullptr);
}

// Succeeds if `result` is `wanted` and the message contains `word`.
inline ::testing::AssertionResult Fails(ncclResult_t result, ncclResult_t wanted, const std::string& word) {
  const std::string text = ncclGetLastError(nullptr);
  if (result == wanted && text.find(word) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "is " << ncclGetErrorString(result) << " (" << static_cast<int>(result)
                                       << ") with \"" << text << "\", not " << static_cast<int>(wanted) << " with \""
                                       << word << '"';
}

// A communicator that is destroyed at the end of its scope.
class Comm {
 public:
  Comm() = default;
  Comm(Comm&& other) noexcept : handle_(other.Release()) {}
  Comm& operator=(Comm&&) = delete;
  ~Comm() {
    if (handle_ != nullptr) {
      EXPECT_TRUE(Ok(ncclCommDestroy(handle_)));
    }
  }
  operator ncclComm_t() const { return handle_; }  // NOLINT: stands for the handle in every call
  ncclComm_t* address() { return &handle_; }
  ncclComm_t Release() { return std::exchange(handle_, nullptr); }

 private:
  ncclComm_t handle_ = nullptr;
};

inline ncclUniqueId IdOf(const Rank& self, int which = 0) { return std::bit_cast<ncclUniqueId>(self.IdOf(which)); }

inline Comm Join(const Rank& self, ncclConfig_t* config = nullptr, int which = 0) {
  Comm comm;
  EXPECT_TRUE(Ok(ncclCommInitRankConfig(comm.address(), self.size(), IdOf(self, which), self.rank(), config)));
  return comm;
}

// A communicator of one rank.
inline Comm Alone() {
  Comm comm;
  ncclUniqueId id;
  EXPECT_TRUE(Ok(ncclGetUniqueId(&id)));
  EXPECT_TRUE(Ok(ncclCommInitRank(comm.address(), 1, id, 0)));
  return comm;
}

inline int RankIn(ncclComm_t comm) {
  int rank = -1;
  EXPECT_TRUE(Ok(ncclCommUserRank(comm, &rank)));
  return rank;
}

inline int SizeOf(ncclComm_t comm) {
  int size = -1;
  EXPECT_TRUE(Ok(ncclCommCount(comm, &size)));
  return size;
}

// The sum of all ranks' `value`.
inline double Sum(ncclComm_t comm, double value) {
  EXPECT_TRUE(Ok(ncclAllReduce(&value, &value, 1, ncclFloat64, ncclSum, comm, nullptr)));
  return value;
}

// The final result of a non-blocking communicator's operation.
inline ncclResult_t Await(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (const auto result = ncclCommGetAsyncError(comm, &state); result != ncclSuccess) return result;
  }
  return state;
}

}  // namespace tutti::nccl::testing
