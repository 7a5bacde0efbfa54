// Slots and short messages over real queue pairs. Runs where there are the two devices that run-in-guest.sh makes.
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "tests/verbs/ranks.h"

namespace tutti {
namespace {

using testing::Meeting;
using testing::OnDevices;
using testing::Patience;
using testing::Rank;
using testing::RunRanks;

constexpr std::array<Wire, 3> kAllWires = {Wire::line, Wire::inlined, Wire::bulk};

std::byte Pattern(int rank, int channel, Wire wire, std::uint32_t slot, std::size_t at) {
  return static_cast<std::byte>(rank * 101 + channel * 53 + static_cast<int>(wire) * 29 + static_cast<int>(slot) * 13 +
                                static_cast<int>(at * 7 + (at >> 8)));
}

// Of all sizes that a slot may have; the empty and the full one among them.
std::uint32_t SizeOf(std::uint32_t slot, std::uint32_t capacity) {
  switch (slot % 5) {
    case 0: return 0;
    case 1: return capacity;
    case 2: return 1;
    case 3: return capacity / 2 + slot % 7;
    default: return static_cast<std::uint32_t>(slot * 2654435761U) % (capacity + 1);
  }
}
constexpr std::uint32_t kTag = 0xabcd0000;

// A connection to a peer and one from it: fills what may be filled, empties what has come.
struct Traffic {
  Traffic(Rank& self, int with, int on_channel, Wire on_wire, std::uint32_t of)
      : rank(self), peer(with), channel(on_channel), wire(on_wire), slots(of) {}
  Traffic(Rank& self, int on_channel, Wire on_wire, std::uint32_t of)
      : Traffic(self, self.peer(), on_channel, on_wire, of) {}

  // An operation returns when it has got everything, and the network has all that it sent.
  bool Done() { return filled == slots && emptied == slots && rank.fabric.To(channel, wire, peer).Drained(); }
  // Where the data of a slot that refers to some is.
  std::function<std::byte*(std::uint32_t slot)> elsewhere;

  void Step() {
    auto& to = rank.fabric.To(channel, wire, peer);
    while (filled < slots && to.HasRoom()) {
      const std::uint32_t bytes = SizeOf(filled, to.shape().capacity);
      auto& header = to.Header();
      std::byte* const data = elsewhere ? elsewhere(filled) : to.Data();
      for (std::size_t i = 0; i < bytes; ++i) data[i] = Pattern(rank.rank, channel, wire, filled, i);
      header.bytes = bytes;
      header.kind = elsewhere ? SlotKind::pointer : SlotKind::value;
      if (elsewhere) header.address = reinterpret_cast<std::uint64_t>(data);
      to.Publish(kTag + filled++);
    }
    auto& from = rank.fabric.From(channel, wire, peer);
    while (emptied < slots && from.Look(kTag + emptied) == EmptyEnd::State::ready) {
      const std::uint32_t bytes = SizeOf(emptied, from.shape().capacity);
      EXPECT_EQ(from.Header().bytes, bytes) << "slot " << emptied;
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < bytes; ++i) wrong += from.Data()[i] != Pattern(peer, channel, wire, emptied, i);
      EXPECT_EQ(wrong, 0U) << "slot " << emptied << " of " << bytes << " bytes on " << NameOf(wire);
      from.Release();
      ++emptied;
    }
  }

  Rank& rank;
  const int peer;
  const int channel;
  const Wire wire;
  const std::uint32_t slots;
  std::uint32_t filled = 0, emptied = 0;
};

// With every peer.
void MoveAll(Rank& rank, int channels) {
  std::vector<Traffic> all;
  for (const int peer : rank.Others()) {
    rank.engine.Need(peer);
    for (int channel = 0; channel < channels; ++channel) {
      for (const Wire wire : kAllWires) all.emplace_back(rank, peer, channel, wire, wire == Wire::bulk ? 12 : 150);
    }
  }
  EXPECT_TRUE(rank.Until([&] {
    for (auto& each : all) each.Step();
    return std::ranges::all_of(all, &Traffic::Done);
  }));
  for (const int peer : rank.Others()) EXPECT_EQ(rank.engine.Lost(peer).value_or(""), "");
}

void MoveAllOn(const std::string& first, const std::string& second, int channels = 2) {
  RunRanks({OnDevices(first), OnDevices(second)}, channels, [&](Rank& rank) { MoveAll(rank, channels); });
}

TEST(VerbsCarrier, SlotsOfAllWiresBothWays) { MoveAllOn("=rxe0", "=rxe0"); }
TEST(VerbsCarrier, AcrossTheCable) { MoveAllOn("=rxe0", "=rxe1"); }
TEST(VerbsCarrier, SeveralRails) { MoveAllOn("rxe", "rxe"); }
TEST(VerbsCarrier, OneHasMoreRailsThanTheOther) { MoveAllOn("rxe", "=rxe0"); }

// More completions than a queue has room for at first.
TEST(VerbsCarrier, FiveRanks) {
  RunRanks({OnDevices("=rxe0"), OnDevices("=rxe1"), OnDevices("=rxe0"), OnDevices("=rxe1"), OnDevices("=rxe0")}, 1,
           [](Rank& rank) { MoveAll(rank, 1); });
}

TEST(VerbsCarrier, DataElsewhereIsCopiedOnceUnlessItIsRegistered) {
  constexpr std::uint32_t kSlots = 8;
  RunRanks({OnDevices("rxe"), OnDevices("rxe")}, 1, [](Rank& rank) {
    const auto shape = rank.fabric.To(0, Wire::bulk, rank.peer()).shape();
    for (const bool registered : {false, true}) {
      std::vector<std::byte> memory(kSlots * std::size_t{shape.capacity});
      if (registered) rank.engine.Register(memory.data(), memory.size());
      // What the ring's own slots hold shows whether they were used.
      std::byte* const slots = rank.fabric.To(0, Wire::bulk, rank.peer()).slots();
      const std::size_t marked = shape.data_offset + shape.capacity - 1;
      for (std::uint32_t i = 0; i < shape.depth; ++i) slots[i * std::size_t{shape.stride} + marked] = std::byte{0x5a};
      Traffic traffic(rank, 0, Wire::bulk, kSlots);
      traffic.elsewhere = [&](std::uint32_t slot) { return memory.data() + slot * std::size_t{shape.capacity}; };
      rank.engine.Need(rank.peer());
      ASSERT_TRUE(rank.Until([&] {
        traffic.Step();
        return traffic.Done();
      })) << rank.engine.Lost(rank.peer()).value_or("");
      // Slot 6 is a full one.
      const std::byte mark = slots[SlotIndex(6, shape.depth) * std::size_t{shape.stride} + marked];
      EXPECT_EQ(mark == std::byte{0x5a}, registered);
      if (registered) rank.engine.Deregister(memory.data(), memory.size());
    }
  });
}

TEST(VerbsCarrier, ARankThatDoesNotLookIsWaitedFor) {
  constexpr int kChannels = 6;  // their rings hold more slots than a queue pair has receives
  RunRanks({OnDevices("=rxe0"), OnDevices("=rxe1")}, kChannels, [](Rank& rank) {
    MoveAll(rank, 1);
    if (rank.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    std::vector<Traffic> all;
    for (int channel = 1; channel < kChannels; ++channel) {
      for (const Wire wire : {Wire::line, Wire::inlined}) all.emplace_back(rank, channel, wire, 100);
    }
    EXPECT_TRUE(rank.Until([&] {
      for (auto& each : all) each.Step();
      return std::ranges::all_of(all, &Traffic::Done);
    })) << rank.engine.Lost(rank.peer()).value_or("");
  });
}

TEST(VerbsCarrier, WhatComesWakesWhoSleeps) {
  constexpr int kRounds = 20;
  RunRanks({OnDevices("rxe"), OnDevices("rxe")}, 1, [](Rank& rank) {
    MoveAll(rank, 1);
    for (int round = 0; round < kRounds; ++round) {
      Traffic traffic(rank, 0, round % 2 == 0 ? Wire::line : Wire::inlined, 1);
      if (rank.rank == 0) {
        rank.meet({});  // the other is about to sleep
        traffic.Step();
        EXPECT_TRUE(rank.Until([&] {
          traffic.Step();
          return traffic.Done();
        }));
        continue;
      }
      // The last news of the rounds before; then there is nothing left to do.
      while (rank.engine.Progress() || !rank.carrier->PrepareToSleep()) {
      }
      rank.meet({});
      constexpr int kMilliseconds = 30'000;
      while (traffic.emptied == 0) {
        pollfd fd{rank.carrier->descriptor(), POLLIN, 0};
        ASSERT_EQ(poll(&fd, 1, kMilliseconds), 1) << "it slept through round " << round;
        // News of other things is possible, and looked at before sleeping again.
        do {
          rank.engine.Progress();
        } while (!rank.carrier->PrepareToSleep());
        traffic.Step();
      }
      EXPECT_TRUE(rank.Until([&] {
        traffic.Step();
        return traffic.Done();
      }));
    }
  });
}

TEST(VerbsCarrier, FailuresAndFarewellsAreHeard) {
  const std::string text(kFaultText - 1, 'x');  // longer than a part of a message
  RunRanks({OnDevices("=rxe0"), OnDevices("=rxe0")}, 1, [&](Rank& rank) {
    MoveAll(rank, 1);
    if (rank.rank == 0) {
      rank.engine.TellFailure(tuttiInternalError, text);
      return;
    }
    // Not its state: at the end of this test it leaves, too.
    auto& mirror = rank.fabric.control(0);
    EXPECT_TRUE(rank.Until([&] { return mirror.fault_code.load() == tuttiInternalError; }))
        << rank.engine.Lost(0).value_or("");
    EXPECT_EQ(std::string(mirror.fault_text.data()), text);
  });
  RunRanks({OnDevices("=rxe0"), OnDevices("=rxe1")}, 1, [&](Rank& rank) {
    MoveAll(rank, 1);
    if (rank.rank == 0) return;  // it leaves
    EXPECT_TRUE(rank.Until([&] { return rank.fabric.control(0).state.load() == RankState::left; }))
        << rank.engine.Lost(0).value_or("");
    EXPECT_EQ(rank.engine.Lost(0), std::nullopt);
  });
  // Before there are queue pairs to say it by.
  RunRanks({OnDevices("=rxe0"), OnDevices("=rxe1")}, 1, [&](Rank& rank) {
    rank.engine.Need(rank.peer());
    if (rank.rank == 0) return;
    EXPECT_TRUE(rank.Until([&] { return rank.fabric.control(0).state.load() == RankState::left; }))
        << rank.engine.Lost(0).value_or("");
  });
}

// Runs rank 1 in a process of its own.
pid_t Fork(Meeting& meeting, const SecretKey& key, const std::function<void(Rank&)>& run) {
  const pid_t pid = fork();
  if (pid != 0) {
    meeting.Leave(1);
    return pid;
  }
  meeting.Leave(0);
  try {
    Rank rank(1, meeting, OnDevices("=rxe1"), key, 1);
    run(rank);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  _exit(0);
}

TEST(VerbsCarrier, AKilledPeerIsMissedAtOnce) {
  Meeting meeting(2);
  const auto key = SecretKey::Random();
  const pid_t pid = Fork(meeting, key, [](Rank& rank) {
    MoveAll(rank, 1);
    rank.Until([] { return false; });
  });
  {
    Rank rank(0, meeting, OnDevices("=rxe0"), key, 1);
    MoveAll(rank, 1);
    kill(pid, SIGKILL);
    Traffic more(rank, 0, Wire::bulk, 12);
    rank.Until([&] {
      if (more.filled < 4) more.Step();
      return false;
    });
    EXPECT_EQ(rank.engine.Lost(1).value_or(""), "its connection was closed");
  }
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(VerbsCarrier, APeerWithAnotherSecretIsNotBelieved) {
  Meeting meeting(2);
  const pid_t pid = Fork(meeting, SecretKey::Random(), [](Rank& rank) {
    rank.engine.Need(0);
    rank.Until([] { return false; });
  });
  {
    Rank rank(0, meeting, OnDevices("=rxe0"), SecretKey::Random(), 1);
    rank.engine.Need(1);
    rank.Until([] { return false; });
    EXPECT_NE(rank.engine.Lost(1).value_or("").find("secret"), std::string::npos) << rank.engine.Lost(1).value_or("");
  }
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

void ExpectWords(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << '"' << word << "\" not in: " << text;
}

TEST(VerbsSettings, WhatCannotBeUsedIsSaidWithARemedy) {
  EXPECT_EQ(WhyNoVerbs(OnDevices("")), "");
  ExpectWords(WhyNoVerbs(OnDevices("=mlx5_7")), {"TUTTI_IB_HCA=\"=mlx5_7\"", "rxe0:1", "rxe1:1", "active"});
  ExpectWords(WhyNoVerbs(OnDevices("=")), {"TUTTI_IB_HCA", "is not allowed"});
  auto settings = OnDevices("=rxe0:1");
  settings.ib_gid_index = 77;
  ExpectWords(WhyNoVerbs(settings), {"TUTTI_IB_GID_INDEX=77", "rxe0 port 1", "1: RoCE v2 10.88.0.1"});
}

TEST(VerbsSettings, AddressesOfTwoFamiliesDoNotMeet) {
  std::vector<Settings> settings = {OnDevices("=rxe0"), OnDevices("=rxe1")};
  settings[0].ib_gid_index = 0;  // IPv6
  RunRanks(settings, 1, [](Rank& rank) {
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
    // Whoever has this capability has no limit.
    __user_cap_header_struct who{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> caps{};
    syscall(SYS_capget, &who, caps.data());
    caps[0].effective &= ~(1U << CAP_IPC_LOCK);
    syscall(SYS_capset, &who, caps.data());
    const rlimit limit{64 * 1024, 64 * 1024};
    setrlimit(RLIMIT_MEMLOCK, &limit);
    const auto why = WhyNoVerbs(OnDevices("=rxe0"));
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

// The last ones, for they spoil the cable.
TEST(ZVerbsCable, ItsEndIsAnErrorThatNamesThePort) {
  std::vector<Settings> settings = {OnDevices("=rxe0"), OnDevices("=rxe1")};
  for (auto& each : settings) {
    each.ib_timeout = 10;  // 4 ms
    each.ib_retry = 6;     // soft-RoCE takes 7 for "without end"
  }
  RunRanks(settings, 1, [](Rank& rank) {
    MoveAll(rank, 1);
    if (rank.rank == 0) {
      // What is sent to an address that nobody has gets lost, silently.
      EXPECT_EQ(std::system("ip neigh replace 10.88.0.2 lladdr 02:00:00:00:00:77 dev rnic0 nud permanent"), 0);
    }
    Traffic more(rank, 0, Wire::bulk, 1);
    EXPECT_TRUE(rank.Until([&] {
      if (rank.rank == 0 && more.filled == 0) more.Step();
      return rank.engine.Lost(rank.peer()).has_value();
    }));
    // One has met it, and the other is told.
    ExpectWords(rank.engine.Lost(rank.peer()).value_or(""),
                {"rxe", "port 1 to 10.88.0.", "transport retry counter exceeded (the peer or the way to it is gone)"});
  });
}

TEST(ZVerbsCable, APortWithoutItIsNotUsed) {
  EXPECT_EQ(std::system("ip link set rnic1 down"), 0);
  const auto deadline = Patience();
  while (WhyNoVerbs(OnDevices("=rxe1")).empty() && !deadline.Passed()) std::this_thread::yield();
  ExpectWords(WhyNoVerbs(OnDevices("=rxe1")), {"rxe1 port 1 is down", "ip link", "rxe0:1 (RoCE, down)"});
}

}  // namespace
}  // namespace tutti
