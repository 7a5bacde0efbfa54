// A call that fails gives its buffers back: the caller writes there at once, and no rank takes what it writes for data of
// the call, nor does the network write there any more. Slots may refer to a buffer by a pointer (threads), by an offset into
// a window, or by an address for process_vm_readv; between hosts, slots are sent from a buffer and land in one.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <span>
#include <thread>

#include "testing/ranks.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

constexpr unsigned char kForeign = 0xEE;

enum class Lent { pointers, windows, addresses, network };
constexpr std::array kLent = {Lent::pointers, Lent::windows, Lent::addresses, Lent::network};
std::string NameOf(Lent lent) {
  constexpr std::array kNames = {"Pointers", "Windows", "Addresses", "Network"};
  return kNames[static_cast<std::size_t>(lent)];
}

RunOptions OptionsFor(Lent lent) {
  RunOptions options{.threads = lent == Lent::pointers,
                     .environment = {{"TUTTI_CMA", lent == Lent::addresses ? "on" : "off"}}};
  if (lent == Lent::network) options.environment.emplace_back("TUTTI_VIRTUAL_HOSTS", "3");
  return options;
}

// A buffer that is a window if slots are to refer to one.
class Buffer {
 public:
  Buffer(tuttiComm_t comm, Lent lent, std::size_t bytes) : comm_(comm), allocated_(lent == Lent::windows) {
    void* memory = nullptr;
    if (allocated_) {
      EXPECT_TRUE(Ok(tuttiMemAlloc(&memory, bytes)));
      EXPECT_TRUE(Ok(tuttiCommWindowRegister(comm, memory, bytes, &window_, 0)));
    } else {
      plain_.resize(bytes);
      memory = plain_.data();
    }
    bytes_ = {static_cast<unsigned char*>(memory), bytes};
  }
  ~Buffer() {
    if (!allocated_) return;
    tuttiCommWindowDeregister(comm_, window_);
    tuttiMemFree(bytes_.data());
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  unsigned char* data() { return bytes_.data(); }
  void Fill(unsigned char value) { std::memset(bytes_.data(), value, bytes_.size()); }

 private:
  tuttiComm_t comm_;
  bool allocated_;
  tuttiWindow_t window_ = nullptr;
  std::vector<unsigned char> plain_;
  std::span<unsigned char> bytes_;
};

// More than the receiver takes before it asks for the message: between hosts, as many bytes as its slots hold.
constexpr std::size_t MessageBytes(Lent lent) {
  return lent == Lent::network ? std::size_t{8} << 20 : std::size_t{512} << 10;
}

class Recall : public ::testing::TestWithParam<Lent> {
 protected:
  void SetUp() override {
    const auto why = GetParam() == Lent::addresses ? WhyNoReadsOfOtherProcesses() : "";
    if (!why.empty()) GTEST_SKIP() << why;
#if defined(__SANITIZE_THREAD__)
    if (GetParam() == Lent::pointers) GTEST_SKIP() << "a thread may still read, in vain, what the program writes";
#endif
  }
};
INSTANTIATE_TEST_SUITE_P(References, Recall, ::testing::ValuesIn(kLent),
                         [](const auto& which) { return NameOf(which.param); });

// An abort takes them back, too.
TEST_P(Recall, OfAMessageWhoseSenderAborts) {
  if (GetParam() == Lent::windows) GTEST_SKIP() << "windows go with their communicator";
  RunRanks(
      2,
      [](Rank& self) {
        auto comm = self.Join();
        const std::size_t bytes = MessageBytes(GetParam());
        std::vector<unsigned char> data(bytes, 1);
        self.Meet();
        if (self.rank() == 0) {
          const tuttiComm_t handle = comm.Release();
          std::thread end([handle] {
            usleep(200'000);
            tuttiCommAbort(handle);
          });
          EXPECT_TRUE(Fails(tuttiSend(data.data(), bytes, tuttiUint8, 1, handle, nullptr), tuttiRemoteError));
          std::memset(data.data(), kForeign, data.size());
          end.join();
        }
        self.Meet();
        if (self.rank() == 1) {
          // Between hosts, the reason is lost where it is behind data that the system still read from the sender's memory.
          const auto code = tuttiRecv(data.data(), bytes, tuttiUint8, 0, comm, nullptr);
          const bool lost = GetParam() == Lent::network && Fails(code, tuttiRemoteError, {"rank 0 ", "was lost"});
          if (!lost) {
            EXPECT_TRUE(Fails(code, tuttiRemoteError, {"rank 0 ", "aborted"}));
          }
        }
        self.Meet();
      },
      OptionsFor(GetParam()));
}

// The receiver calls when the sender's call has failed and its buffer has been used again.
TEST_P(Recall, OfAMessageThatTheReceiverAsksForTooLate) {
  RunRanks(
      2,
      [](Rank& self) {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.operationTimeoutMs = self.rank() == 0 ? 200 : 30'000;
        auto comm = self.Join(&config);
        {
          const std::size_t bytes = MessageBytes(GetParam());
          Buffer buffer(comm, GetParam(), bytes);
          buffer.Fill(1);
          if (self.rank() == 0) {
            EXPECT_TRUE(Fails(tuttiSend(buffer.data(), bytes, tuttiUint8, 1, comm, nullptr), tuttiTimeoutError));
            buffer.Fill(kForeign);
          }
          self.Meet();
          if (self.rank() == 1) {
            const auto code = tuttiRecv(buffer.data(), bytes, tuttiUint8, 0, comm, nullptr);
            const bool lost = GetParam() == Lent::network && code == tuttiRemoteError;  // and with it the reason
            EXPECT_TRUE(Fails(code, lost ? tuttiRemoteError : tuttiTimeoutError, {"rank 0 "}));
          }
          self.Meet();
        }
      },
      OptionsFor(GetParam()));
}

// Rank 0's calls end at a random moment by its time-out or a revoke, and it fills its buffers at once. No rank succeeds with
// what it wrote.
void FailAtRandomMoments(Lent lent, std::uint32_t seed) {
  constexpr int kRounds = 8;  // a board has as many ids
  RunRanks(
      3,
      [&](Rank& self) {
        std::mt19937 random(seed);  // the same on all ranks
        const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
        for (int round = 0; round < kRounds; ++round) {
          const std::size_t bytes = (std::size_t{1} + below(32)) * 32 * 1024;
          const unsigned what = below(4), how = below(2), moment = below(4000);
          const std::array<unsigned, 3> late = {below(3000), below(3000), below(3000)};
          SCOPED_TRACE(fmt::format("{}, seed {}, round {}", NameOf(lent), seed, round));
          tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
          config.operationTimeoutMs = self.rank() == 0 && how == 0 ? 1 + static_cast<int>(moment / 1000) : 20'000;
          tuttiComm_t comm = nullptr;
          ASSERT_TRUE(Ok(tuttiCommInitRankConfig(&comm, self.size(), self.IdOf(round), self.rank(), &config)));
          std::vector<std::thread> ends;
          {
            const std::size_t all = bytes * 3;
            std::vector<unsigned char> out(all);
            Buffer in(comm, lent, all);
            in.Fill(1);
            self.Meet();
            if (self.rank() == 0 && how == 1) {
              ends.emplace_back([&] {
                usleep(moment);
                tuttiCommRevoke(comm, 0);
              });
            }
            usleep(late[static_cast<std::size_t>(self.rank())]);
            tuttiResult_t result = tuttiSuccess;
            for (int call = 0; call < 10 && result == tuttiSuccess; ++call) {
              std::memset(out.data(), 0, out.size());
              switch (what) {
                case 0: result = tuttiBroadcast(in.data(), out.data(), bytes, tuttiUint8, 0, comm, nullptr); break;
                case 1: result = tuttiAllGather(in.data(), out.data(), bytes, tuttiUint8, comm, nullptr); break;
                case 2: result = tuttiAlltoAll(in.data(), out.data(), bytes, tuttiUint8, comm, nullptr); break;
                default:
                  if (self.rank() == 0) result = tuttiSend(in.data(), bytes, tuttiUint8, 1, comm, nullptr);
                  if (self.rank() == 1) result = tuttiRecv(out.data(), bytes, tuttiUint8, 0, comm, nullptr);
              }
              if (result == tuttiSuccess) {
                EXPECT_EQ(std::memchr(out.data(), kForeign, out.size()), nullptr)
                    << "call " << call << " of kind " << what;
              }
            }
            std::memset(in.data(), kForeign, all);
            std::ranges::fill(out, kForeign);
            self.Meet();  // others may still read it
            EXPECT_TRUE(std::ranges::all_of(out, [](unsigned char byte) { return byte == kForeign; }))
                << "written to after the call of kind " << what;
            for (auto& end : ends) end.join();
          }
          tuttiCommDestroy(comm);
        }
      },
      OptionsFor(lent));
}

TEST_P(Recall, AtRandomMoments) {
  for (std::uint32_t seed = 1; seed < 4; ++seed) FailAtRandomMoments(GetParam(), seed);
}

class RecallSlow : public Recall {};
INSTANTIATE_TEST_SUITE_P(References, RecallSlow, ::testing::ValuesIn(kLent),
                         [](const auto& which) { return NameOf(which.param); });
TEST_P(RecallSlow, AtManyRandomMoments) {
  constexpr std::uint32_t kSeeds = 25;
  for (std::uint32_t i = 0; i < kSeeds; ++i) FailAtRandomMoments(GetParam(), 4 + Iteration() * kSeeds + i);
}

}  // namespace
}  // namespace tutti::testing
