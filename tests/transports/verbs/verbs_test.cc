// Slots and short messages over real queue pairs. Runs where run-in-guest.sh has made its two devices.
#include "transports/verbs/verbs.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "base/all_gather.h"
#include "tests/transports/conformance/contract.h"

namespace tutti::verbs {
namespace {

using testing::ExpectWords;
using testing::Maker;
using testing::MoveAll;
using testing::Patience;
using testing::Rank;
using testing::RunRanks;
using testing::Traffic;

Settings OnDevices(const std::string& hca) {
  auto settings = testing::OnLoopback();
  settings.ib_hca = hca;
  return settings;
}

Maker With(const Settings& settings) {
  return [settings](int rank, const std::vector<int>& peers, const auth::SecretKey& key, const AllGather& all_gather,
                    progress::NetworkTransportEvents& events) {
    return kNetwork.make(rank, peers, key, settings, {}, all_gather, events);
  };
}
Maker On(const std::string& hca) { return With(OnDevices(hca)); }

void MoveAllOn(const std::string& first, const std::string& second, int channels = 2) {
  RunRanks({On(first), On(second)}, channels, [&](Rank& rank) { MoveAll(rank, channels); });
}

TEST(VerbsTransport, SlotsOfAllProtocolsBothWays) { MoveAllOn("=rxe0", "=rxe0"); }
TEST(VerbsTransport, AcrossTheCable) { MoveAllOn("=rxe0", "=rxe1"); }
TEST(VerbsTransport, SeveralRails) { MoveAllOn("rxe", "rxe"); }
TEST(VerbsTransport, OneHasMoreRailsThanTheOther) { MoveAllOn("rxe", "=rxe0"); }

// More completions than a queue initially has room for.
TEST(VerbsTransport, FiveRanks) {
  RunRanks({On("=rxe0"), On("=rxe1"), On("=rxe0"), On("=rxe1"), On("=rxe0")}, 1, [](Rank& rank) { MoveAll(rank, 1); });
}

TEST(VerbsTransport, DataElsewhereIsCopiedOnceUnlessItIsRegistered) {
  constexpr std::uint32_t kSlots = 8;
  RunRanks({On("rxe"), On("rxe")}, 1, [](Rank& rank) {
    const auto shape = rank.fabric.To(0, ring::Protocol::bulk, rank.peer()).shape();
    for (const bool registered : {false, true}) {
      std::vector<std::byte> memory(kSlots * std::size_t{shape.capacity});
      if (registered) rank.engine.Register(memory.data(), memory.size());
      // The ring's own slots show by their contents whether they were used.
      std::byte* const slots = rank.fabric.To(0, ring::Protocol::bulk, rank.peer()).slots();
      const std::size_t marked = shape.data_offset + shape.capacity - 1;
      for (std::uint32_t i = 0; i < shape.depth; ++i) slots[i * std::size_t{shape.stride} + marked] = std::byte{0x5a};
      Traffic traffic(rank, 0, ring::Protocol::bulk, kSlots);
      traffic.elsewhere = [&](std::uint32_t slot) { return memory.data() + slot * std::size_t{shape.capacity}; };
      rank.engine.Need(rank.peer());
      ASSERT_TRUE(rank.Until([&] {
        traffic.Step();
        return traffic.Done();
      })) << rank.engine.Lost(rank.peer()).value_or("");
      // Slot 6 is a full slot.
      const std::byte mark = slots[ring::SlotIndex(6, shape.depth) * std::size_t{shape.stride} + marked];
      EXPECT_EQ(mark == std::byte{0x5a}, registered);
      if (registered) rank.engine.Deregister(memory.data(), memory.size());
    }
  });
}

TEST(VerbsTransport, ARankThatDoesNotLookIsWaitedFor) {
  testing::ARankThatDoesNotLookIsWaitedFor({On("=rxe0"), On("=rxe1")});
}
TEST(VerbsTransport, WhatComesWakesWhoSleeps) { testing::WhatComesWakesWhoSleeps({On("rxe"), On("rxe")}); }
TEST(VerbsTransport, FailuresAndFarewellsAreHeard) {
  testing::FailuresAndFarewellsAreHeard({On("=rxe0"), On("=rxe1")});
}
TEST(VerbsTransport, AKilledPeerIsMissedAtOnce) { testing::AKilledPeerIsMissedAtOnce({On("=rxe0"), On("=rxe1")}); }
TEST(VerbsTransport, APeerWithAnotherSecretIsNotBelieved) {
  testing::APeerWithAnotherSecretIsNotBelieved({On("=rxe0"), On("=rxe1")});
}

TEST(VerbsSettings, WhatCannotBeUsedIsSaidWithARemedy) {
  EXPECT_EQ(kNetwork.why_not(OnDevices("")), "");
  ExpectWords(kNetwork.why_not(OnDevices("=mlx5_7")), {"TUTTI_IB_HCA=\"=mlx5_7\"", "rxe0:1", "rxe1:1", "active"});
  ExpectWords(kNetwork.why_not(OnDevices("=")), {"TUTTI_IB_HCA", "is not allowed"});
  auto settings = OnDevices("=rxe0:1");
  settings.ib_gid_index = 77;
  ExpectWords(kNetwork.why_not(settings), {"TUTTI_IB_GID_INDEX=77", "rxe0 port 1", "1: RoCE v2 10.88.0.1"});
}

TEST(VerbsSettings, AddressesOfTwoFamiliesDoNotMeet) {
  auto by_ipv6 = OnDevices("=rxe0");
  by_ipv6.ib_gid_index = 0;
  RunRanks({With(by_ipv6), On("=rxe1")}, 1, [](Rank& rank) {
    rank.engine.Need(rank.peer());
    rank.Until([] { return false; });
    ExpectWords(rank.engine.Lost(rank.peer()).value_or(""), {"fe80::", "10.88.0.2", "TUTTI_IB_GID_INDEX"});
  });
}

TEST(VerbsSettings, TooLittleLockedMemoryIsSaidWithARemedy) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    // The limit does not apply to processes with this capability.
    __user_cap_header_struct who{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> caps{};
    syscall(SYS_capget, &who, caps.data());
    caps[0].effective &= ~(1U << CAP_IPC_LOCK);
    syscall(SYS_capset, &who, caps.data());
    const rlimit limit{64 * 1024, 64 * 1024};
    setrlimit(RLIMIT_MEMLOCK, &limit);
    const auto why = kNetwork.why_not(OnDevices("=rxe0"));
    [[maybe_unused]] const auto written = write(pipe_ends[1], why.data(), why.size());
    _exit(0);
  }
  close(pipe_ends[1]);
  std::string why(4096, '\0');
  const auto got = read(pipe_ends[0], why.data(), why.size());
  close(pipe_ends[0]);
  why.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  ExpectWords(why, {"rxe0 port 1", "registering", "RLIMIT_MEMLOCK", "64 KiB", "ulimit -l", "LimitMEMLOCK"});
}

// These tests run last, because they break the cable.
TEST(ZVerbsCable, ItsEndIsAnErrorThatNamesThePort) {
  const auto impatient = [](const std::string& hca) {
    auto settings = OnDevices(hca);
    settings.ib_timeout = 10;  // 4 ms
    settings.ib_retry = 6;     // soft-RoCE takes 7 as "no limit"
    return With(settings);
  };
  RunRanks({impatient("=rxe0"), impatient("=rxe1")}, 1, [](Rank& rank) {
    MoveAll(rank, 1);
    if (rank.rank == 0) {
      // Packets to an unused address are lost, silently.
      EXPECT_EQ(std::system("ip neigh replace 10.88.0.2 lladdr 02:00:00:00:00:77 dev rnic0 nud permanent"), 0);
    }
    Traffic more(rank, 0, ring::Protocol::bulk, 1);
    EXPECT_TRUE(rank.Until([&] {
      if (rank.rank == 0 && more.filled == 0) more.Step();
      return rank.engine.Lost(rank.peer()).has_value();
    }));
    // One rank detects it, and reports it to the other.
    ExpectWords(rank.engine.Lost(rank.peer()).value_or(""),
                {"rxe", "port 1 to 10.88.0.", "transport retry counter exceeded (the peer or the way to it is gone)"});
  });
}

TEST(ZVerbsCable, APortWithoutItIsNotUsed) {
  EXPECT_EQ(std::system("ip link set rnic1 down"), 0);
  const auto deadline = Patience();
  while (kNetwork.why_not(OnDevices("=rxe1")).empty() && !deadline.Passed()) std::this_thread::yield();
  ExpectWords(kNetwork.why_not(OnDevices("=rxe1")), {"rxe1 port 1 is down", "ip link", "rxe0:1 (RoCE, down)"});
}

}  // namespace
}  // namespace tutti::verbs
