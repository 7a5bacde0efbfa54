#include "tests/transports/conformance/contract.h"

#include <sys/wait.h>

#include <csignal>
#include <cstdio>

namespace tutti::testing {
namespace {

// Runs rank 1 in a separate process.
pid_t Fork(Meeting& meeting, const Maker& make, const auth::SecretKey& key, const std::function<void(Rank&)>& run) {
  const pid_t pid = fork();
  if (pid != 0) {
    meeting.Leave(1);
    return pid;
  }
  meeting.Leave(0);
  try {
    Rank rank(1, meeting, make, key, 1);
    run(rank);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  _exit(0);
}

}  // namespace

void ARankThatDoesNotLookIsWaitedFor(const Makers& makers) {
  constexpr int kChannels = 6;  // their rings hold more slots than a network may accept at once
  RunRanks(makers, kChannels, [](Rank& rank) {
    MoveAll(rank, 1);
    if (rank.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
    std::vector<Traffic> all;
    for (int channel = 1; channel < kChannels; ++channel) {
      for (const ring::Protocol protocol : {ring::Protocol::line, ring::Protocol::inlined})
        all.emplace_back(rank, channel, protocol, 100);
    }
    Finish(rank, all);
  });
}

void WhatComesWakesWhoSleeps(const Makers& makers) {
  constexpr int kRounds = 20;
  RunRanks(makers, 1, [](Rank& rank) {
    MoveAll(rank, 1);
    for (int round = 0; round < kRounds; ++round) {
      Traffic traffic(rank, 0, round % 2 == 0 ? ring::Protocol::line : ring::Protocol::inlined, 1);
      if (rank.rank == 0) {
        rank.meet({});  // the other rank is about to sleep
        traffic.Step();
        EXPECT_TRUE(rank.Until([&] {
          traffic.Step();
          return traffic.Done();
        }));
        continue;
      }
      // Processes the last events of the rounds before; then there is nothing left to do.
      while (rank.engine.Progress() || !rank.transport->PrepareToSleep()) {
      }
      rank.meet({});
      constexpr int kMilliseconds = 30'000;
      while (traffic.emptied == 0) {
        pollfd fd{rank.transport->descriptor(), POLLIN, 0};
        ASSERT_EQ(poll(&fd, 1, kMilliseconds), 1) << "it slept through round " << round;
        // Other events may arrive, and are handled before it sleeps again.
        do {
          rank.engine.Progress();
        } while (!rank.transport->PrepareToSleep());
        traffic.Step();
      }
      EXPECT_TRUE(rank.Until([&] {
        traffic.Step();
        return traffic.Done();
      }));
    }
  });
}

void FailuresAndFarewellsAreHeard(const Makers& makers) {
  const std::string text(ring::kFaultText - 1, 'x');  // longer than a part of a message
  // A rank gets the failure even if it was never connected to the failed rank.
  for (const bool connected : {true, false}) {
    RunRanks(makers, 1, [&](Rank& rank) {
      if (connected) MoveAll(rank, 1);
      if (rank.rank == 0) {
        rank.engine.TellFailure(tuttiInternalError, text, false);
        return;
      }
      // Checks the fault, not the state, because rank 0 also leaves at the end of this test.
      auto& shadow = rank.fabric.control(0);
      EXPECT_TRUE(rank.Until([&] { return shadow.fault_code.load() == tuttiInternalError; }))
          << rank.engine.Lost(0).value_or("");
      EXPECT_EQ(std::string(shadow.fault_text.data()), text);
    });
  }
  RunRanks(makers, 1, [&](Rank& rank) {
    MoveAll(rank, 1);
    if (rank.rank == 0) return;  // it leaves
    EXPECT_TRUE(rank.Until([&] { return rank.fabric.control(0).state.load() == ring::RankState::left; }))
        << rank.engine.Lost(0).value_or("");
    EXPECT_EQ(rank.Lost(0), "");
  });
  // Rank 0 leaves before any traffic: the connection is the only way to say so.
  RunRanks(makers, 1, [&](Rank& rank) {
    rank.engine.Need(rank.peer());
    if (rank.rank == 0) return;
    EXPECT_TRUE(rank.Until([&] { return rank.fabric.control(0).state.load() == ring::RankState::left; }))
        << rank.engine.Lost(0).value_or("");
  });
}

void AKilledPeerIsMissedAtOnce(const Makers& makers) {
  Meeting meeting(2);
  const auto key = auth::SecretKey::Random();
  const pid_t pid = Fork(meeting, makers[1], key, [](Rank& rank) {
    MoveAll(rank, 1);
    rank.Until([] { return false; });
  });
  {
    Rank rank(0, meeting, makers[0], key, 1);
    MoveAll(rank, 1);
    kill(pid, SIGKILL);
    Traffic more(rank, 0, ring::Protocol::bulk, 12);
    rank.Until([&] {
      if (more.filled < 4) more.Step();
      return false;
    });
    const auto why = rank.engine.Lost(1).value_or("");
    // Depends on whether the rank detects the death when it reads, when it sends, or otherwise.
    EXPECT_TRUE(why == "its connection was closed" || why.starts_with("its connection broke") ||
                why.starts_with("sending to it failed"))
        << why;
  }
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

void APeerWithAnotherSecretIsNotBelieved(const Makers& makers) {
  Meeting meeting(2);
  const pid_t pid = Fork(meeting, makers[1], auth::SecretKey::Random(), [](Rank& rank) {
    rank.engine.Need(0);
    rank.Until([] { return false; });
  });
  {
    Rank rank(0, meeting, makers[0], auth::SecretKey::Random(), 1);
    rank.engine.Need(1);
    rank.Until([] { return false; });
    EXPECT_NE(rank.engine.Lost(1).value_or("").find("secret"), std::string::npos) << rank.engine.Lost(1).value_or("");
  }
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

}  // namespace tutti::testing
