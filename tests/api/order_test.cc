// Legal programs end (docs/lifecycles.md): every call has its place among the calls on its communicator, and a call that
// waits keeps no other communicator from going on. Each program here has an order in which all its calls can be done.
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

// A call that waits for one that never comes fails by this, long before the test's own limit.
const RunOptions kInTime{.limit = std::chrono::seconds(120), .environment = {{"TUTTI_TIMEOUT_MS", "20000"}}};
const RunOptions kInTimeAsThreads{.threads = true, .limit = kInTime.limit, .environment = kInTime.environment};

// Gives the other ranks, or other threads, the time to come as far as they can.
void LetOthersGoOn() { usleep(300'000); }

class Stream {
 public:
  Stream() { EXPECT_TRUE(Ok(tuttiStreamCreate(&handle_))); }
  ~Stream() { EXPECT_TRUE(Ok(tuttiStreamDestroy(handle_))); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  tuttiStream_t handle() const { return handle_; }
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

// How rank 0 makes its calls: the busy call on B and then a group of a call on A and one on B.
struct BusyGroup {
  std::string name;
  bool in_thread;                 // the busy call: in a thread; else on a stream
  bool a_on_stream, b_on_stream;  // the group's calls: on streams; else without
  bool b_on_busy_stream;
};

class OrderInAGroup : public ::testing::TestWithParam<BusyGroup> {};

TEST_P(OrderInAGroup, APartBeginsWhileAnotherCommunicatorIsBusy) {
  RunRanks(
      2,
      [](Rank& self) {
        const Comm a = self.Join();
        const Comm b = SplitOf(a);
        Sum busy, on_a, on_b;
        if (self.rank() == 1) {
          LetOthersGoOn();
          EXPECT_TRUE(Ok(on_a.Call(a)));
          EXPECT_TRUE(Ok(busy.Call(b)));
          EXPECT_TRUE(Ok(on_b.Call(b)));
          return;
        }
        const auto& how = GetParam();
        const Stream first, second;
        std::thread thread;
        if (how.in_thread) {
          thread = std::thread([&] { EXPECT_TRUE(Ok(busy.Call(b))); });
          LetOthersGoOn();
        } else {
          ASSERT_TRUE(Ok(busy.Call(b, first)));
        }
        ASSERT_TRUE(Ok(tuttiGroupStart()));
        ASSERT_TRUE(Ok(on_a.Call(a, how.a_on_stream ? second.handle() : nullptr)));
        const tuttiStream_t stream_b = how.b_on_busy_stream ? first : second;
        ASSERT_TRUE(Ok(on_b.Call(b, how.b_on_stream ? stream_b : nullptr)));
        EXPECT_TRUE(Ok(tuttiGroupEnd()));
        EXPECT_TRUE(Ok(tuttiStreamSynchronize(second)));
        EXPECT_TRUE(Ok(tuttiStreamSynchronize(first)));
        if (thread.joinable()) thread.join();
        EXPECT_EQ(on_a.sum() + busy.sum() + on_b.sum(), 6);
      },
      kInTime);
}

INSTANTIATE_TEST_SUITE_P(Of, OrderInAGroup,
                         ::testing::Values(BusyGroup{"TheCaller", false, false, false, false},
                                           BusyGroup{"TheCallerBesideAThread", true, false, false, false},
                                           BusyGroup{"OneStream", false, true, true, false},
                                           BusyGroup{"TheCallerAndTheBusyStream", false, false, true, true},
                                           BusyGroup{"AStreamAndTheBusyOne", false, true, true, true}),
                         [](const auto& info) { return info.param.name; });

struct WaitingGroup {
  std::string name;
  bool in_thread;     // the call that never ends: in a thread; else on a stream
  bool group_queued;  // the group's calls: on a stream; else without
  bool aborted_first;
};

class AbortInAGroup : public ::testing::TestWithParam<WaitingGroup> {};

// Nothing else ends the call on the other communicator.
TEST_P(AbortInAGroup, DoesNotWaitForTheOtherCommunicator) {
  RunAlone(
      [] {
        const auto& how = GetParam();
        tuttiComm_t stuck[2], aborted[2];
        ASSERT_TRUE(Ok(tuttiCommInitAll(stuck, 2, nullptr)));
        ASSERT_TRUE(Ok(tuttiCommInitAll(aborted, 2, nullptr)));
        const Stream first, second;
        Sum never, one, other;
        std::atomic<bool> ended{false};
        const auto never_ends = [&] {
          EXPECT_TRUE(
              Fails(never.Call(stuck[0], how.in_thread ? nullptr : first.handle()), tuttiRemoteError, {"aborted"}));
          ended = true;
        };
        std::thread thread;
        if (how.in_thread) {
          thread = std::thread(never_ends);
        } else {
          ASSERT_TRUE(Ok(never.Call(stuck[0], first)));
        }
        LetOthersGoOn();
        std::thread group([&] {
          const tuttiStream_t stream = how.group_queued ? second.handle() : nullptr;
          ASSERT_TRUE(Ok(tuttiGroupStart()));
          ASSERT_TRUE(Ok(one.Call(how.aborted_first ? aborted[0] : stuck[0], stream)));
          ASSERT_TRUE(Ok(other.Call(how.aborted_first ? stuck[0] : aborted[0], stream)));
          auto result = tuttiGroupEnd();
          if (how.group_queued) {
            EXPECT_TRUE(Ok(result));
            result = tuttiStreamSynchronize(second);
          }
          EXPECT_EQ(result, tuttiRemoteError);
        });
        LetOthersGoOn();
        EXPECT_TRUE(Ok(tuttiCommAbort(aborted[0])));
        if (how.in_thread) {
          EXPECT_FALSE(ended);
        } else {
          EXPECT_EQ(tuttiStreamQuery(first), tuttiInProgress);
        }
        EXPECT_TRUE(Ok(tuttiCommAbort(stuck[0])));
        group.join();
        if (thread.joinable()) thread.join();
        tuttiStreamSynchronize(first);
        EXPECT_TRUE(Ok(tuttiCommAbort(aborted[1])));
        EXPECT_TRUE(Ok(tuttiCommAbort(stuck[1])));
      },
      kInTime);
}

INSTANTIATE_TEST_SUITE_P(Of, AbortInAGroup,
                         ::testing::Values(WaitingGroup{"ACallersGroup", false, false, false},
                                           WaitingGroup{"AStreamsGroup", false, true, true},
                                           WaitingGroup{"AGroupBesideAThread", true, false, false},
                                           WaitingGroup{"AGroupBesideAThreadTheOtherWayRound", true, false, true}),
                         [](const auto& info) { return info.param.name; });

TEST(Order, SignalsDoNotWaitForWaits) {
  for (const bool threads : {false, true}) {
    RunRanks(
        2,
        [](Rank& self) {
          const Comm comm = self.Join();
          const int other = 1 - self.rank();
          tuttiWaitSignalDesc_t from_other{1, other, 0, 0};
          const Stream first, second;
          ASSERT_TRUE(Ok(tuttiWaitSignal(1, &from_other, comm, first)));
          ASSERT_TRUE(Ok(tuttiSignal(other, 0, 0, 0, comm, second)));
          ASSERT_TRUE(Ok(tuttiStreamSynchronize(first)));
          // A wait without a stream, and signals of another thread: alone, and two in a group.
          from_other.opCnt = 3;
          std::thread waiting([&] { EXPECT_TRUE(Ok(tuttiWaitSignal(1, &from_other, comm, nullptr))); });
          LetOthersGoOn();
          ASSERT_TRUE(Ok(tuttiSignal(other, 0, 0, 0, comm, nullptr)));
          ASSERT_TRUE(Ok(tuttiGroupStart()));
          ASSERT_TRUE(Ok(tuttiSignal(other, 0, 0, 0, comm, nullptr)));
          ASSERT_TRUE(Ok(tuttiSignal(other, 0, 0, 0, comm, second)));
          ASSERT_TRUE(Ok(tuttiGroupEnd()));
          waiting.join();
          ASSERT_TRUE(Ok(tuttiStreamSynchronize(second)));
        },
        threads ? kInTimeAsThreads : kInTime);
  }
}

// Not before the collective that was made before, which the other rank has not called yet.
TEST(Order, ASignalFollowsTheCollectivesMadeBefore) {
  RunRanks(
      2,
      [](Rank& self) {
        const Comm comm = self.Join();
        const Stream stream;
        auto& signalled = self.board().numbers[0];
        Sum sum;
        if (self.rank() == 0) {
          ASSERT_TRUE(Ok(sum.Call(comm, stream)));
          ASSERT_TRUE(Ok(tuttiSignal(1, 0, 0, 0, comm, nullptr)));
          signalled = 1;
          EXPECT_EQ(sum.sum(), 2);
        } else {
          LetOthersGoOn();
          EXPECT_EQ(signalled, 0);
          tuttiWaitSignalDesc_t from_other{1, 0, 0, 0};
          ASSERT_TRUE(Ok(sum.Call(comm)));
          ASSERT_TRUE(Ok(tuttiWaitSignal(1, &from_other, comm, nullptr)));
        }
      },
      kInTime);
}

TEST(Order, SynchronizeDoesNotWaitForLaterCalls) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under ThreadSanitizer calls take longer than queueing them, so the stream never ends";
#endif
  if (const auto why = WhyEmulated("what is queued takes minutes"); !why.empty()) GTEST_SKIP() << why;
  RunAlone(
      [] {
        tuttiComm_t comm = nullptr;
        ASSERT_TRUE(Ok(tuttiCommInitAll(&comm, 1, nullptr)));
        constexpr std::size_t kCount = 1 << 18;  // the stream works longer than this takes to queue
        const std::vector<float> input(kCount);
        std::vector<float> output(kCount);
        {
          const Stream stream;
          std::atomic<bool> stop{false};
          std::thread queueing([&] {
            while (!stop) {
              for (int i = 0; i < 100; ++i) {
                EXPECT_TRUE(
                    Ok(tuttiAllReduce(input.data(), output.data(), kCount, tuttiFloat32, tuttiSum, comm, stream)));
              }
              usleep(1000);
            }
          });
          LetOthersGoOn();
          EXPECT_TRUE(Ok(tuttiStreamSynchronize(stream)));
          stop = true;
          queueing.join();
        }
        EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
      },
      kInTime);
}

}  // namespace
}  // namespace tutti::testing
