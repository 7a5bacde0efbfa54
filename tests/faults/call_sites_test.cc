// Messages name the line of each rank's call. (This file is compiled with -g.)
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <functional>

#include "testing/ranks.h"
#include "tutti/extension.h"

namespace tutti::testing {
namespace {

class CallSites : public ::testing::Test {
 protected:
  void SetUp() override {
    if (dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr)
      GTEST_SKIP() << "what reads lines is missing: " << dlerror();
  }
};

enum class Way { plain, group, stream };
constexpr std::array kWays = {Way::plain, Way::group, Way::stream};

struct Data {
  std::array<float, 8> in{}, out{};
};

// Where a test's functions call.
constexpr int kReduces = __LINE__ + 2;
[[gnu::noinline]] tuttiResult_t Reduces(Data& data, tuttiComm_t comm, tuttiStream_t stream) {
  const auto result = tuttiAllReduce(data.in.data(), data.out.data(), 4, tuttiFloat32, tuttiSum, comm, stream);
  data.in[0] = 1;  // no tail call
  return result;
}

constexpr int kGathers = __LINE__ + 2;
[[gnu::noinline]] tuttiResult_t Gathers(Data& data, tuttiComm_t comm, tuttiStream_t stream) {
  const auto result = tuttiAllGather(data.in.data(), data.out.data(), 4, tuttiFloat32, comm, stream);
  data.in[0] = 1;
  return result;
}

constexpr int kSplits = __LINE__ + 3;
[[gnu::noinline]] tuttiResult_t Splits(tuttiComm_t comm, tuttiComm_t& child, tuttiConfig_t* config) {
  child = nullptr;
  const auto result = tuttiCommSplit(comm, 1, 0, &child, config);
  return result == tuttiSuccess && child == nullptr ? tuttiInProgress : result;
}

constexpr int kRegisters = __LINE__ + 3;
[[gnu::noinline]] tuttiResult_t Registers(Data& data, tuttiComm_t comm) {
  tuttiWindow_t window = nullptr;
  const auto result = tuttiCommWindowRegister(comm, data.in.data(), sizeof data.in, &window, TUTTI_WIN_DEFAULT);
  return result == tuttiSuccess && window == nullptr ? tuttiInternalError : result;
}

// The words for a line of this file.
std::string Site(int line, std::string_view function) {
  return fmt::format("at call_sites_test.cc:{} in tutti::testing::{}", line, function);
}

class Stream {
 public:
  Stream() { EXPECT_EQ(tuttiStreamCreate(&stream_), tuttiSuccess); }
  ~Stream() { EXPECT_EQ(tuttiStreamDestroy(stream_), tuttiSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  tuttiStream_t get() const { return stream_; }

 private:
  tuttiStream_t stream_ = nullptr;
};

using Function = tuttiResult_t (*)(Data&, tuttiComm_t, tuttiStream_t);

tuttiResult_t Call(Function call, Data& data, tuttiComm_t comm, Way way, const Stream& stream) {
  if (way == Way::plain) return call(data, comm, nullptr);
  if (way == Way::group) {
    tuttiGroupStart();
    call(data, comm, nullptr);
    Reduces(data, comm, nullptr);
    return tuttiGroupEnd();
  }
  call(data, comm, stream.get());
  return tuttiStreamSynchronize(stream.get());
}

void Disagree(Rank& self, Way way) {
  const Comm comm = self.Join();
  const Stream stream;
  Data data;
  const auto result = Call(self.rank() == 0 ? Reduces : Gathers, data, comm, way, stream);
  EXPECT_EQ(result, tuttiInvalidUsage);
  const std::string message = tuttiGetLastError(comm);
  for (const auto& words : {Site(kReduces, "Reduces"), Site(kGathers, "Gathers")}) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  self.Meet();
}

TEST_F(CallSites, OfBothRanksWhoseCallsDiffer) {
  for (const Way way : kWays) {
    SCOPED_TRACE(static_cast<int>(way));
    RunRanks(2, [way](Rank& self) { Disagree(self, way); });
  }
}

TEST_F(CallSites, OfARankOfAnotherHost) {
  RunOptions options;
  options.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}};
  for (const Way way : kWays) {
    SCOPED_TRACE(static_cast<int>(way));
    RunRanks(
        2, [way](Rank& self) { Disagree(self, way); }, options);
  }
}

// Two ranks, of one host and of two: rank 1 may die.
void RunUntilADeath(const std::function<void(Rank&)>& body) {
  RunOptions options;
  options.may_die = {1};
  for (const char* const hosts : {"1", "2"}) {
    options.environment = {{"TUTTI_VIRTUAL_HOSTS", hosts}};
    RunRanks(2, body, options);
  }
}

// The dead rank's call can be read after its death, and the wait's own call is named.
TEST_F(CallSites, OfTheWaitForADeadRank) {
  RunUntilADeath([](Rank& self) {
    Comm comm = self.Join();
    Data data;
    ASSERT_TRUE(Ok(Gathers(data, comm, nullptr)));
    if (self.rank() == 1) KillThisProcessAfter({});
    EXPECT_TRUE(Fails(Reduces(data, comm, nullptr), tuttiRemoteError,
                      {"while", "waited for it", Site(kReduces, "Reduces"), "its last call was all_gather",
                       Site(kGathers, "Gathers")}));
  });
}

// It has no last call that a message could name.
TEST_F(CallSites, OfARankThatDiesBeforeItsFirstCall) {
  RunUntilADeath([](Rank& self) {
    Comm comm = self.Join();
    if (self.rank() == 1) KillThisProcessAfter({});
    Data data;
    EXPECT_TRUE(Fails(Reduces(data, comm, nullptr), tuttiRemoteError, {"waited for it", Site(kReduces, "Reduces")}));
    const std::string message = tuttiGetLastError(comm);
    EXPECT_EQ(message.find("last call"), std::string::npos) << message;
  });
}

TEST_F(CallSites, OfARankThatIsLate) {
  RunOptions options;
  options.environment = {{"TUTTI_TIMEOUT_MS", "500"}};
  RunRanks(
      2,
      [](Rank& self) {
        const Comm comm = self.Join();
        Data data;
        ASSERT_TRUE(Ok(Gathers(data, comm, nullptr)));
        if (self.rank() == 0) {
          EXPECT_TRUE(Fails(Reduces(data, comm, nullptr), tuttiTimeoutError,
                            {"nothing moved", Site(kReduces, "Reduces"), "has not called it (its last was",
                             Site(kGathers, "Gathers")}));
        }
        self.Meet();
      },
      options);
}

// A library on top names its caller, and the one further out is nearer to the user.
[[gnu::noinline]] tuttiResult_t Outer(Data& data, tuttiComm_t comm) {
  const CallsFrom caller;
  const tuttiCallSite_t inner = {1, "inner.py:1 in never"};
  const CallsFrom named(&inner);
  return Reduces(data, comm, nullptr);
}

TEST_F(CallSites, OfALibraryOnTop) {
  for (const char* const hosts : {"1", "2"}) {
    RunOptions options;
    options.environment = {{"TUTTI_VIRTUAL_HOSTS", hosts}};
    RunRanks(
        2,
        [](Rank& self) {
          const Comm comm = self.Join();
          Data data;
          constexpr std::uint64_t kKey = 17;
          const tuttiCallSite_t script = {kKey, "/job/in here/train.py:41 in step"};
          const int line = __LINE__ + 7;
          tuttiResult_t result = tuttiSuccess;
          if (self.rank() == 0) {
            const CallsFrom named(&script);
            result = Gathers(data, comm, nullptr);
          } else {
            const CallsFrom nothing(nullptr);
            result = Outer(data, comm);
            data.in[0] = 1;
          }
          EXPECT_TRUE(Fails(result, tuttiInvalidUsage,
                            {" at train.py:41 in step", fmt::format(" at call_sites_test.cc:{} in ", line)}));
          // The names ended with their objects.
          EXPECT_EQ(tuttiCallSiteBegin(nullptr), 0);
          EXPECT_EQ(tuttiCallSiteBegin(&script), 1);
          EXPECT_EQ(tuttiCallSiteBegin(&script), 0);
          tuttiCallSiteEnd();
          self.Meet();
        },
        options);
  }
}

TEST_F(CallSites, OfTheUsersCodeThatALibraryCallsBack) {
  RunRanks(2, [](Rank& self) {
    const Comm comm = self.Join();
    Data data;
    const tuttiCallSite_t outer = {1, "outer.py:1 in never"};
    const CallsFrom named(&outer);
    {
      const SuspendedCallSite of_the_library;
      const SuspendedCallSite of_none;
      const auto result = self.rank() == 0 ? Reduces(data, comm, nullptr) : Gathers(data, comm, nullptr);
      EXPECT_TRUE(Fails(result, tuttiInvalidUsage, {Site(kReduces, "Reduces"), Site(kGathers, "Gathers")}));
    }
    EXPECT_EQ(tuttiCallSiteBegin(&outer), 0) << "the library's site has not come back";
    self.Meet();
  });
}

// Ranks whose calls ended alone compare them in the next control call, over the control plane.
TEST_F(CallSites, OfCallsThatAreComparedLater) {
  RunRanks(2, [](Rank& self) {
    const Comm comm = self.Join();
    Data data;
    const int line = __LINE__ + 1;
    const auto result = tuttiBroadcast(data.in.data(), data.out.data(), 4, tuttiFloat32, self.rank(), comm, nullptr);
    tuttiComm_t child = nullptr;
    const auto split = result == tuttiSuccess ? tuttiCommSplit(comm, 0, 0, &child, nullptr) : result;
    EXPECT_TRUE(
        Fails(split, tuttiInvalidUsage, {"root=0", "root=1", fmt::format(" at call_sites_test.cc:{} in ", line)}));
    self.Meet();
  });
}

// Control calls are compared by themselves. In a group, the line is that of the call, not of the group's end.
TEST_F(CallSites, OfControlCallsThatDiffer) {
  for (const bool grouped : {false, true}) {
    RunRanks(3, [grouped](Rank& self) {
      const Comm comm = self.Join();
      Data data;
      tuttiComm_t child = nullptr;
      auto result = tuttiSuccess;
      if (self.rank() == 1) {
        result = Registers(data, comm);
      } else if (grouped) {
        EXPECT_TRUE(Ok(tuttiGroupStart()));
        Splits(comm, child, nullptr);
        result = tuttiGroupEnd();
      } else {
        result = Splits(comm, child, nullptr);
      }
      EXPECT_TRUE(Fails(result, tuttiInvalidUsage, {Site(kSplits, "Splits"), Site(kRegisters, "Registers")}));
      self.Meet();
    });
  }
}

// A rank whose split runs in the background, beside one that makes no more calls.
TEST_F(CallSites, OfAControlCallInTheBackground) {
  RunRanks(2, [](Rank& self) {
    Comm comm = self.Join();
    if (self.rank() == 1) {
      EXPECT_TRUE(Ok(tuttiCommFinalize(comm)));
    } else {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.blocking = 0;
      tuttiComm_t child = nullptr;
      EXPECT_EQ(Splits(comm, child, &config), tuttiInProgress);
      auto state = tuttiInProgress;
      while (state == tuttiInProgress) ASSERT_TRUE(Ok(tuttiCommGetAsyncError(child, &state)));
      EXPECT_EQ(state, tuttiInvalidUsage);
      const std::string message = tuttiGetLastError(child);
      EXPECT_NE(message.find("called finalize"), std::string::npos) << message;
      EXPECT_NE(message.find(Site(kSplits, "Splits")), std::string::npos) << message;
      EXPECT_TRUE(Ok(tuttiCommDestroy(child)));
    }
    self.Meet();
  });
}

TEST_F(CallSites, OfAControlCallThatWaitsForADeadRank) {
  RunUntilADeath([](Rank& self) {
    const Comm comm = self.Join();
    if (self.rank() == 1) KillThisProcessAfter({});
    tuttiComm_t child = nullptr;
    EXPECT_TRUE(Fails(Splits(comm, child, nullptr), tuttiRemoteError, {"called split", Site(kSplits, "Splits")}));
  });
}

TEST_F(CallSites, OfAControlCallThatTimesOut) {
  RunOptions options;
  options.environment = {{"TUTTI_INIT_TIMEOUT_MS", "700"}};
  RunRanks(
      2,
      [](Rank& self) {
        const Comm comm = self.Join();
        tuttiComm_t child = nullptr;
        if (self.rank() == 0) {
          EXPECT_TRUE(
              Fails(Splits(comm, child, nullptr), tuttiTimeoutError, {"called split", Site(kSplits, "Splits")}));
        }
        self.Meet();
      },
      options);
}

}  // namespace
}  // namespace tutti::testing
