// Legal programs end (docs/lifecycles.md): every call has its place among the calls on its communicator, and a call that
// waits keeps no other communicator from going on. Each program here has an order in which all its calls can be done.
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

// A call that waits for one that never comes fails by this, long before the test's own limit.
const RunOptions kInTime{.limit = std::chrono::seconds(120), .environment = {{"TUTTI_TIMEOUT_MS", "20000"}}};
const RunOptions kInTimeAsThreads{.threads = true, .limit = kInTime.limit, .environment = kInTime.environment};

// Gives the other ranks, or other threads, the time to come as far as they can.
void LetOthersGoOn() { usleep(100'000); }

class Stream {
 public:
  Stream() { EXPECT_TRUE(Ok(tuttiStreamCreate(&handle_))); }
  ~Stream() { EXPECT_TRUE(Ok(tuttiStreamDestroy(handle_))); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator tuttiStream_t() const { return handle_; }  // NOLINT: stands for the handle in every call

 private:
  tuttiStream_t handle_ = nullptr;
};

// An all-reduce of a number of its own.
class Sum {
 public:
  tuttiResult_t Call(tuttiComm_t comm, tuttiStream_t stream = nullptr) {
    return tuttiAllReduce(&mine_, &sum_, 1, tuttiFloat32, tuttiSum, comm, stream);
  }
  float sum() const { return sum_; }

 private:
  float mine_ = 1, sum_ = 0;
};

Comm SplitOf(tuttiComm_t comm) {
  Comm part;
  EXPECT_TRUE(Ok(tuttiCommSplit(comm, 0, 0, part.address(), nullptr)));
  return part;
}

tuttiResult_t EndOf(tuttiComm_t comm) {
  auto state = tuttiInProgress;
  while (state == tuttiInProgress) {
    EXPECT_TRUE(Ok(tuttiCommGetAsyncError(comm, &state)));
    usleep(100);
  }
  return state;
}

struct ControlCall {
  std::string name;
  std::function<void(tuttiComm_t)> make;
};

std::vector<ControlCall> ControlCalls() {
  return {{"Split", [](tuttiComm_t comm) { SplitOf(comm); }},
          {"Shrink",
           [](tuttiComm_t comm) {
             Comm fresh;
             EXPECT_TRUE(Ok(tuttiCommShrink(comm, nullptr, 0, fresh.address(), nullptr, TUTTI_SHRINK_DEFAULT)));
           }},
          {"SplitWithoutBlocking",
           [](tuttiComm_t comm) {
             tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
             config.blocking = 0;
             Comm fresh;
             EXPECT_EQ(tuttiCommSplit(comm, 0, 0, fresh.address(), &config), tuttiInProgress);
             EXPECT_EQ(EndOf(fresh), tuttiSuccess);
           }},
          {"WindowRegister", [](tuttiComm_t comm) {
             void* memory = nullptr;
             tuttiWindow_t window = nullptr;
             EXPECT_TRUE(Ok(tuttiMemAlloc(&memory, 4096)));
             EXPECT_TRUE(Ok(tuttiCommWindowRegister(comm, memory, 4096, &window, TUTTI_WIN_DEFAULT)));
             EXPECT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
             EXPECT_TRUE(Ok(tuttiMemFree(memory)));
           }}};
}

class OrderOf : public ::testing::TestWithParam<std::size_t> {};

// Rank 0's call on the stream cannot begin yet when it makes the control call.
TEST_P(OrderOf, AControlCallFollowsTheCallsOnStreams) {
  RunRanks(
      2,
      [](Rank& self) {
        const Comm comm = self.Join();
        const Comm other = SplitOf(comm);
        const Stream stream;
        Sum first, second;
        if (self.rank() == 0) {
          ASSERT_TRUE(Ok(first.Call(other, stream)));
        }
        ASSERT_TRUE(Ok(second.Call(comm, stream)));
        if (self.rank() == 1) {
          LetOthersGoOn();
          ASSERT_TRUE(Ok(first.Call(other)));
        }
        ControlCalls()[GetParam()].make(comm);
        EXPECT_EQ(second.sum(), 2);
        ASSERT_TRUE(Ok(tuttiStreamSynchronize(stream)));
        EXPECT_EQ(first.sum(), 2);
      },
      kInTime);
}

INSTANTIATE_TEST_SUITE_P(ControlCalls, OrderOf, ::testing::Range(std::size_t{0}, ControlCalls().size()),
                         [](const auto& info) { return ControlCalls()[info.param].name; });

TEST(Order, ASplitFollowsTheCallsOfANonblockingParent) {
  RunRanks(
      2,
      [](Rank& self) {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.blocking = 0;
        tuttiComm_t joining = nullptr;
        ASSERT_EQ(tuttiCommInitRankConfig(&joining, self.size(), self.IdOf(), self.rank(), &config), tuttiInProgress);
        const Comm comm(joining);
        ASSERT_EQ(EndOf(comm), tuttiSuccess);
        for (int round = 0; round < 50; ++round) {
          Sum sum;
          Comm part;
          ASSERT_EQ(sum.Call(comm), tuttiInProgress);
          const int color = self.rank() == 0 ? 0 : TUTTI_SPLIT_NOCOLOR;
          ASSERT_EQ(tuttiCommSplit(comm, color, 0, part.address(), nullptr), tuttiInProgress);
          ASSERT_EQ(EndOf(comm), tuttiSuccess) << "round " << round;
          EXPECT_EQ(sum.sum(), 2);
          if (self.rank() == 0) {
            ASSERT_EQ(EndOf(part), tuttiSuccess);
          }
        }
      },
      kInTime);
}

// A split waits for its parent's running call, but not once its child is aborted.
TEST(Order, AnAbortOfAChildDoesNotWaitForTheParentsCalls) {
  RunRanks(
      2,
      [](Rank& self) {
        const Comm comm = self.Join();
        Sum sum;
        if (self.rank() == 0) {
          std::thread running([&] { EXPECT_TRUE(Ok(sum.Call(comm))); });
          LetOthersGoOn();
          tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
          config.blocking = 0;
          tuttiComm_t child = nullptr;
          ASSERT_EQ(tuttiCommSplit(comm, 0, 0, &child, &config), tuttiInProgress);
          LetOthersGoOn();
          EXPECT_TRUE(Ok(tuttiCommAbort(child)));
          EXPECT_EQ(sum.sum(), 0) << "the abort has waited for the parent's call";
          self.Meet();
          running.join();
        } else {
          self.Meet();
          EXPECT_TRUE(Ok(sum.Call(comm)));
        }
        self.Meet();
      },
      kInTime);
}

}  // namespace
}  // namespace tutti::testing
