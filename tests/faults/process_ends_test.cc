// A process that forks, exits, or unloads the library while communicators, streams and their threads exist.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "testing/free_port.h"
#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace {
bool leaves_things_behind = false;
std::atomic<bool> first_use_is_slow{false};
std::atomic<int> threads_in_first_use{0};
}  // namespace
// The library's first use in this process marks a page that forked children find zeroed. This replaces madvise(), so
// that a test can fork in the middle of that.
extern "C" __attribute__((visibility("default"))) int madvise(void* memory, std::size_t bytes, int advice) noexcept {
  if (advice == MADV_WIPEONFORK && first_use_is_slow) {
    ++threads_in_first_use;
    usleep(100'000);
  }
  return static_cast<int>(syscall(SYS_madvise, memory, bytes, advice));
}
// A process with this set dies when it is about to connect to another one.
namespace {
std::atomic<bool> dies_when_it_connects{false};
}  // namespace
extern "C" __attribute__((visibility("default"))) int connect(int fd, const sockaddr* address, socklen_t length) {
  if (dies_when_it_connects) kill(getpid(), SIGKILL);
  return static_cast<int>(syscall(SYS_connect, fd, address, length));
}
// Present when the address sanitizer is. Its allocator (GCC 12's) may be left locked in a child of fork().
extern "C" void __asan_init(void) __attribute__((weak));
// The leak checker, if present, calls this when a process exits. A test's children leak on purpose, for example what
// their parent's threads held.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() { return leaves_things_behind ? 1 : 0; }

namespace tutti::testing {
namespace {

// The exit status of a child of this process that runs `body`; the test's own time limit ends one that hangs.
int InAChild(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Makes one of everything that owns a thread or lives as long as the process.
void MakeOneOfEach(const std::function<void(tuttiStream_t)>& then) {
  tuttiStream_t stream = nullptr;
  ASSERT_TRUE(Ok(tuttiStreamCreate(&stream)));
  tuttiUniqueId id;
  ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  tuttiComm_t joining = nullptr;
  ASSERT_EQ(tuttiCommInitRankConfig(&joining, 2, id, 0, &config), tuttiInProgress);
  std::array<tuttiComm_t, 2> comms{};
  ASSERT_TRUE(Ok(tuttiCommInitAll(comms.data(), 2, nullptr)));
  static float in = 1, out = 0;  // still in use after this function returns
  ASSERT_TRUE(Ok(tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comms[0], stream)));
  void* memory = nullptr;
  ASSERT_TRUE(Ok(tuttiMemAlloc(&memory, 4096)));
  then(stream);
}

[[noreturn]] void Exit(int status) {
  leaves_things_behind = true;
  std::exit(status);
}

TEST(ProcessEnds, ByExitWithEverythingAlive) {
  for (int round = 0; round < 5; ++round) {
    RunAlone([] { EXPECT_EQ(InAChild([] { MakeOneOfEach([](tuttiStream_t) { Exit(7); }); }), 7); },
             {.environment = {{"TUTTI_THREADS", "2"}}});
  }
}

TEST(ProcessEnds, AChildExitsBesideTheParentsThreads) {
  if (const auto why = WhyNoForkBesideThreads(); !why.empty()) GTEST_SKIP() << why;
  RunAlone([] {
    MakeOneOfEach([](tuttiStream_t) {
      for (int round = 0; round < 10; ++round) EXPECT_EQ(InAChild([] { Exit(3); }), 3);
    });
  });
}

TEST(ProcessEnds, AChildIsRefusedItsParentsStream) {
  if (const auto why = WhyNoForkBesideThreads(); !why.empty()) GTEST_SKIP() << why;
  RunAlone([] {
    MakeOneOfEach([](tuttiStream_t stream) {
      EXPECT_EQ(
          InAChild([=] {
            tuttiComm_t comm = nullptr;
            if (tuttiCommInitAll(&comm, 1, nullptr) != tuttiSuccess) _exit(1);
            float in = 1, out = 0;
            const std::vector<std::string> words{"parent process"};
            if (!Fails(tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, stream), tuttiInvalidUsage, words))
              _exit(2);
            if (!Fails(tuttiStreamSynchronize(stream), tuttiInvalidUsage, words)) _exit(3);
            if (!Fails(tuttiStreamQuery(stream), tuttiInvalidUsage, words)) _exit(4);
            if (!Fails(tuttiStreamDestroy(stream), tuttiInvalidUsage, words)) _exit(5);
            // The child's own communicator works.
            tuttiStream_t own_stream = nullptr;
            if (tuttiStreamCreate(&own_stream) != tuttiSuccess) _exit(6);
            if (tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, own_stream) != tuttiSuccess) _exit(7);
            if (tuttiStreamSynchronize(own_stream) != tuttiSuccess || out != 1) _exit(8);
            // A child of the child is a third process.
            const int grandchild = InAChild([&] {
              if (tuttiStreamQuery(own_stream) != tuttiInvalidUsage) _exit(9);
              int rank = -1;
              if (tuttiCommUserRank(comm, &rank) != tuttiInvalidUsage) _exit(10);
              tuttiComm_t own = nullptr;
              if (tuttiCommInitAll(&own, 1, nullptr) != tuttiSuccess) _exit(11);
              Exit(0);
            });
            Exit(grandchild);
          }),
          0);
    });
  });
}

// A group that is open when its thread forks is the parent's. In the child, its end neither joins nor runs anything.
TEST(ProcessEnds, AChildHasNoneOfItsParentsOpenGroup) {
  if (const auto why = WhyNoForkBesideThreads(); !why.empty()) GTEST_SKIP() << why;
  RunAlone([] {
    std::array<tuttiComm_t, 2> pair{}, joined{};
    ASSERT_TRUE(Ok(tuttiCommInitAll(pair.data(), 2, nullptr)));
    tuttiUniqueId id;
    ASSERT_TRUE(Ok(tuttiGetUniqueId(&id)));
    float in = 1;
    std::array<float, 2> out{};
    ASSERT_TRUE(Ok(tuttiGroupStart()));
    ASSERT_TRUE(Ok(tuttiCommInitRank(&joined[0], 2, id, 0)));
    for (std::size_t r = 0; r < 2; ++r) {
      ASSERT_TRUE(Ok(tuttiAllReduce(&in, &out[r], 1, tuttiFloat32, tuttiSum, pair[r], nullptr)));
    }
    EXPECT_EQ(InAChild([&] {
                if (!Fails(tuttiGroupEnd(), tuttiInvalidUsage, {"tuttiGroupStart"})) _exit(1);
                // Outside a group, and in one of its own.
                std::array<tuttiComm_t, 2> own{};
                if (tuttiCommInitAll(own.data(), 2, nullptr) != tuttiSuccess) _exit(2);
                if (tuttiGroupStart() != tuttiSuccess) _exit(3);
                for (std::size_t r = 0; r < 2; ++r) {
                  if (tuttiAllReduce(&in, &out[r], 1, tuttiFloat32, tuttiSum, own[r], nullptr) != tuttiSuccess)
                    _exit(4);
                }
                if (tuttiGroupEnd() != tuttiSuccess || out[0] != 2) _exit(5);
                Exit(0);
              }),
              0);
    std::thread other([&] { EXPECT_TRUE(Ok(tuttiCommInitRank(&joined[1], 2, id, 1))); });
    EXPECT_TRUE(Ok(tuttiGroupEnd()));
    other.join();
    EXPECT_EQ(out[0], 2);
    for (const auto comm : {pair[0], pair[1], joined[0], joined[1]}) EXPECT_TRUE(Ok(tuttiCommDestroy(comm)));
  });
}

// After the exchange of a split and before its first message to the new communicator's ranks, which have no connection to
// it yet: while these cannot tell it from a late rank, the old communicator can.
TEST(ProcessEnds, AtTheMeetingOfASplitIsToldAtOnce) {
  for (const char* hosts : {"1", "3"}) {
    SCOPED_TRACE(hosts);
    RunRanks(3,
             [](Rank& self) {
               auto comm = self.Join();
               std::vector<float> data(1, 1);
               ASSERT_TRUE(Ok(AllReduce(comm, data)));
               if (self.rank() == 2) dies_when_it_connects = true;
               Comm child;
               const int color = self.rank() == 0 ? 0 : 1;
               EXPECT_TRUE(Fails(tuttiCommSplit(comm, color, self.rank(), child.address(), nullptr), tuttiRemoteError,
                                 {"rank 2 "}));
             },
             // The limit comes long before the time-out.
             {.limit = std::chrono::seconds(60),
              .environment = {{"TUTTI_INIT_TIMEOUT_MS", "300000"}, {"TUTTI_VIRTUAL_HOSTS", hosts}},
              .may_die = {2}});
  }
}

// POSIX lets the first thread end before the others. The process goes on, but much of /proc/self is gone, and other
// processes cannot read its memory by its number.
void JoinWithoutAFirstThread(int rank, bool before, const std::string& port) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port.c_str(), 1);
  setenv("TUTTI_CMA", "on", 1);
  static std::atomic<bool> ends{false};
  std::thread([=] {
    const auto end_the_first = [] {
      ends = true;
      usleep(200'000);
    };
    tuttiComm_t comm = nullptr, child = nullptr;
    std::vector<float> data(1'000'000, 1);
    if (before) end_the_first();
    if (tuttiCommInitEnv(&comm, nullptr) != tuttiSuccess) _exit(1);
    if (AllReduce(comm, data) != tuttiSuccess) _exit(2);
    if (!before) end_the_first();
    if (AllReduce(comm, data) != tuttiSuccess || data[5] != 4) _exit(3);
    if (!Ok(tuttiCommSplit(comm, 0, rank, &child, nullptr))) _exit(4);
    if (AllReduce(child, data) != tuttiSuccess || data[5] != 8) _exit(5);
    _exit(0);
  }).detach();
  while (!ends) usleep(1000);
  syscall(SYS_exit, 0);  // of this thread; pthread_exit() would unwind into the test's framework
}

TEST(ProcessEnds, ItsFirstThreadAloneIsNotTheEnd) {
  if (const auto why = WhyEmulated("/proc/thread-self"); !why.empty()) GTEST_SKIP() << why;
  for (const bool before : {true, false}) {
    SCOPED_TRACE(before ? "before the join" : "after the join");
    const auto port = std::to_string(FreePort());
    std::array<pid_t, 2> ranks{};
    for (int r = 0; r < 2; ++r) {
      auto& child = ranks[static_cast<std::size_t>(r)];
      child = fork();
      if (child == 0) {
        alarm(50);
        JoinWithoutAFirstThread(r, before, port);
      }
    }
    for (const pid_t child : ranks) {
      int status = 0;
      waitpid(child, &status, 0);
      EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), 0);
    }
  }
}

// fork() at any moment: the child finds all of the library's locks free, and no half-made change.
TEST(ProcessEnds, AChildFindsNoLockHeld) {
  if (const auto why = WhyNoForkBesideThreads(); !why.empty()) GTEST_SKIP() << why;
  if (__asan_init != nullptr) GTEST_SKIP() << "the address sanitizer's own lock may be held";
  RunAlone([] {
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (!done) {
          tuttiStream_t stream = nullptr;
          EXPECT_TRUE(Ok(tuttiStreamCreate(&stream)));
          EXPECT_TRUE(Ok(tuttiStreamQuery(stream)));
          EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
          EXPECT_NE(tuttiStreamQuery(stream), tuttiSuccess);
          void* memory = nullptr;
          EXPECT_TRUE(Ok(tuttiMemAlloc(&memory, 4096)));
          EXPECT_TRUE(Ok(tuttiMemFree(memory)));
          EXPECT_NE(tuttiCommDestroy(nullptr), tuttiSuccess);
        }
      });
    }
    for (int round = 0; round < 50; ++round) {
      EXPECT_EQ(InAChild([] {
                  int unknown = 0;
                  void* memory = nullptr;
                  if (tuttiStreamQuery(&unknown) != tuttiInvalidArgument) _exit(1);
                  if (tuttiMemAlloc(&memory, 4096) != tuttiSuccess || tuttiMemFree(memory) != tuttiSuccess) _exit(2);
                  if (tuttiCommDestroy(nullptr) != tuttiInvalidArgument) _exit(3);
                  Exit(0);
                }),
                0);
    }
    done = true;
    for (auto& thread : threads) thread.join();
  });
}

// The same for the locks that the compiler generates for lazily initialized objects.
TEST(ProcessEnds, AChildFindsNoFirstUseHalfDone) {
  if (const auto why = WhyNoForkBesideThreads(); !why.empty()) GTEST_SKIP() << why;
  RunAlone(
      [] {
        first_use_is_slow = true;
        tuttiStream_t stream = nullptr;
        std::thread first([&] { EXPECT_TRUE(Ok(tuttiStreamCreate(&stream))); });
        while (threads_in_first_use == 0) usleep(1000);
        EXPECT_EQ(InAChild([] {
                    tuttiStream_t own = nullptr;
                    if (tuttiStreamCreate(&own) != tuttiSuccess) _exit(1);
                    if (tuttiStreamDestroy(own) != tuttiSuccess) _exit(2);
                  }),
                  0);
        first.join();
        EXPECT_TRUE(Ok(tuttiStreamDestroy(stream)));
      },
      {.limit = std::chrono::seconds(20)});
}

// The test program itself keeps the library loaded, so the child runs a program that loads it with dlopen().
TEST(ProcessEnds, UnloadingTheLibraryIsHarmless) {
  RunAlone([] {
    Dl_info info{};
    ASSERT_NE(dladdr(reinterpret_cast<void*>(&tuttiGetVersion), &info), 0);
    const std::string program = std::string(TUTTI_UNLOADS_LIBRARY);
    const int status = InAChild([&] { execl(program.c_str(), program.c_str(), info.dli_fname, nullptr); });
    EXPECT_EQ(status, 0);
  });
}

}  // namespace
}  // namespace tutti::testing
