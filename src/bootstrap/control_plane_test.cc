#include "src/bootstrap/control_plane.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>

#include "net/net_testing.h"
#include "src/bootstrap/job_secret.h"
#include "src/bootstrap/rendezvous/rendezvous.h"
#include "testing/descriptors.h"
#include "testing/surroundings.h"

namespace tutti::bootstrap {
namespace {

using testing::AllRanks;
using testing::Ample;
using testing::BlobOf;
using testing::ExpectError;
using testing::ExpectNoErrors;
using testing::OnLoopback;
using testing::RunRanks;

void ExpectBlobs(const std::vector<ControlPlane::Blob>& blobs, int nranks,
                 const std::function<std::size_t(int)>& size) {
  ASSERT_EQ(blobs.size(), static_cast<std::size_t>(nranks));
  for (int rank = 0; rank < nranks; ++rank) EXPECT_EQ(blobs[rank], BlobOf(rank, size(rank))) << "part of rank " << rank;
}

// An emulator takes a minute to let dozens of ranks prove their secret.
std::vector<int> RankCounts(std::vector<int> counts) {
  if (testing::Emulated()) std::erase_if(counts, [](int count) { return count > 8; });
  return counts;
}

class Families : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(Families, JoinsAndGathersUnevenBlobs) {
  const auto [nranks, v6] = GetParam();
  if (v6 && !testing::HasV6Loopback()) GTEST_SKIP() << "this machine has no IPv6";
  const auto ticket = OpenRendezvous(OnLoopback(v6));
  EXPECT_EQ(ticket.addresses.front().v6, v6);
  const auto errors = RunRanks(AllRanks(nranks), [&, nranks = nranks, v6 = v6](int rank) {
    const auto plane = ControlPlane::Join(ticket, nranks, rank, OnLoopback(v6), Ample());
    EXPECT_EQ(plane->rank(), rank);
    EXPECT_EQ(plane->size(), nranks);
    for (const auto& process : plane->roster()) EXPECT_EQ(process, Process::Current());
    for (std::size_t round = 0; round < 3; ++round) {
      const auto size = [&](int r) { return static_cast<std::size_t>(r) * 100 * round; };
      ExpectBlobs(plane->AllGather(BlobOf(rank, size(rank)), Ample()), nranks, size);
    }
    plane->Barrier(Ample());
  });
  ExpectNoErrors(errors);
}

INSTANTIATE_TEST_SUITE_P(ControlPlane, Families,
                         ::testing::Combine(::testing::ValuesIn(RankCounts({1, 2, 3, 8, 17, 64})), ::testing::Bool()));

// Who reads an id where it is passed on does not join a job that has a secret.
TEST(ControlPlane, AnIdAloneDoesNotJoinAJobWithASecret) {
  auto ours = OnLoopback(), theirs = OnLoopback();
  ours.secret = "of the job";
  const auto ticket = DecodeUniqueId(EncodeUniqueId(OpenRendezvous(ours, nullptr, true)));
  const auto error_of = [](const std::function<void()>& body) {
    return RunRanks({0}, [&](int /*rank*/) { body(); }).front();
  };
  const auto join = [&](const JoinTicket& by) {
    return error_of([&] { ControlPlane::Join(by, 2, 1, theirs, Ample()); });
  };
  ExpectError(join(ticket), tuttiInvalidUsage, {"TUTTI_SECRET is not set, but it is where the unique id was made"});
  auto stripped = ticket;
  stripped.needs_job_secret = false;
  EXPECT_TRUE(join(stripped).has_value());
  theirs.secret = "another one";
  EXPECT_TRUE(join(ticket).has_value());
  ExpectNoErrors(RunRanks(AllRanks(2), [&](int rank) { ControlPlane::Join(ticket, 2, rank, ours, Ample()); }));
  // Nor does a job that has one join by an id that does without.
  ExpectError(error_of([&] { RequireJobSecret(OpenRendezvous(theirs), theirs.secret); }), tuttiInvalidUsage,
              {"TUTTI_SECRET is set, but it is not where the unique id was made"});
}

TEST(ControlPlane, GathersTheLargestBlobsAndRefusesLarger) {
  constexpr int kRanks = 4;
  const auto ticket = OpenRendezvous(OnLoopback());
  const auto errors = RunRanks(AllRanks(kRanks), [&](int rank) {
    const auto plane = ControlPlane::Join(ticket, kRanks, rank, OnLoopback(), Ample());
    const auto size = [](int r) { return r % 2 == 0 ? ControlPlane::kMaxBlob : ControlPlane::kMaxBlob - 1000 * r; };
    ExpectBlobs(plane->AllGather(BlobOf(rank, size(rank)), Ample()), kRanks, size);
    EXPECT_THROW(plane->AllGather(BlobOf(rank, ControlPlane::kMaxBlob + 1), Ample()), Error);
    plane->Barrier(Ample());  // the refused call has sent nothing
  });
  ExpectNoErrors(errors);
}

TEST(ControlPlane, ManyRoundsWithRanksOutOfStep) {
  constexpr int kRanks = 5;
  const auto ticket = OpenRendezvous(OnLoopback());
  const auto errors = RunRanks(AllRanks(kRanks), [&](int rank) {
    const auto plane = ControlPlane::Join(ticket, kRanks, rank, OnLoopback(), Ample());
    for (int round = 0; round < 200; ++round) {
      if ((round + rank) % 7 == 0) std::this_thread::yield();
      const auto size = [&](int r) { return static_cast<std::size_t>((r * 17 + round * 5) % 90); };
      ExpectBlobs(plane->AllGather(BlobOf(rank, size(rank)), Ample()), kRanks, size);
    }
  });
  ExpectNoErrors(errors);
}

// Ranks 0, 3 and 2 of four use the connections that they have. Only rank 0 has one to each other rank, so it comes first.
TEST(ControlPlane, DerivesOthersOverItsConnections) {
  constexpr int kRanks = 4;
  const std::vector<int> members{0, 3, 2};
  const auto ticket = OpenRendezvous(OnLoopback());
  const auto errors = RunRanks(AllRanks(kRanks), [&](int rank) {
    const auto plane = ControlPlane::Join(ticket, kRanks, rank, OnLoopback(), Ample());
    EXPECT_EQ(plane->Reaches({1, 2, 3}), rank == 0) << rank;
    EXPECT_EQ(plane->Reaches({0, rank}), true);
    plane->Barrier(Ample());
    const auto before = testing::OpenDescriptors();
    plane->Barrier(Ample());
    std::vector<std::unique_ptr<ControlPlane>> derived;
    const auto mine = std::ranges::find(members, rank) - members.begin();
    for (std::uint64_t number = 1; rank != 1 && number <= 20; ++number) {
      derived.push_back(plane->Derive(members, number, OnLoopback()));
      EXPECT_EQ(derived.back()->rank(), mine);
      const auto size = [&](int r) { return static_cast<std::size_t>(r) * 1000 + number; };
      ExpectBlobs(derived.back()->AllGather(BlobOf(static_cast<int>(mine), size(static_cast<int>(mine))), Ample()), 3,
                  size);
    }
    plane->Barrier(Ample());
    if (rank == 0) {
      EXPECT_LT(testing::OpenDescriptors(), before + kRanks) << "a rank that waits has one for that time";
    }
    for (std::size_t d = 1; d < derived.size(); ++d) {
      EXPECT_FALSE(derived[d]->data_key() == derived[d - 1]->data_key());
    }
    plane->Barrier(Ample());
    // The end of one leaves the others. Who closes it is named there.
    if (rank == 3) derived[0].reset();
    if (rank == 0 || rank == 2) {
      try {
        derived[0]->Barrier(Ample());
        ADD_FAILURE() << "a barrier without rank 3";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), tuttiRemoteError);
        EXPECT_NE(std::string(error.what()).find("rank 1 "), std::string::npos) << error.what();
      }
    }
    if (rank != 1) derived[1]->Barrier(Ample());
    plane->Barrier(Ample());
  });
  ExpectNoErrors(errors);
}

// Every rank of this process but `late` exchanges; `late` has joined and does nothing.
std::vector<std::optional<Error>> ExchangeWithout(int late, int nranks, Deadline::Milliseconds wait) {
  const auto ticket = OpenRendezvous(OnLoopback());
  std::latch others(nranks - 1);
  return RunRanks(AllRanks(nranks), [&, late](int rank) {
    const auto plane = ControlPlane::Join(ticket, nranks, rank, OnLoopback(), Ample());
    if (rank == late) return others.wait();
    struct Arrive {
      std::latch& latch;
      ~Arrive() { latch.count_down(); }
    } const arrive{others};
    plane->Barrier(Deadline::After(wait));
  });
}

TEST(ControlPlane, TimeoutNamesTheRankThatDoesNotCome) {
  for (const int late : {0, 2}) {
    const auto errors = ExchangeWithout(late, 4, std::chrono::milliseconds(300));
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == late) continue;
      ExpectError(errors[rank], tuttiTimeoutError, {fmt::format("rank {}", late), Process::Current().host});
    }
  }
}

TEST(ControlPlane, EveryLaterCallThrowsTheSame) {
  const auto ticket = OpenRendezvous(OnLoopback());
  std::latch gone(1);
  const auto errors = RunRanks(AllRanks(2), [&](int rank) {
    auto plane = ControlPlane::Join(ticket, 2, rank, OnLoopback(), Ample());
    if (rank == 0) {
      plane.reset();
      return gone.count_down();
    }
    gone.wait();
    std::string first;
    try {
      plane->Barrier(Ample());
    } catch (const Error& error) {
      first = error.what();
    }
    EXPECT_NE(first, "");
    try {
      plane->Barrier(Ample());
      ADD_FAILURE() << "a dead control plane worked";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), tuttiRemoteError);
      EXPECT_EQ(error.what(), first);
    }
  });
  ExpectNoErrors(errors);
}

TEST(ControlPlane, CancelEndsTheExchangeEverywhere) {
  for (const int aborter : {0, 2}) {
    const auto ticket = OpenRendezvous(OnLoopback());
    std::atomic<bool> cancel{false};
    std::latch joined(4);
    std::latch others(3);
    const auto errors = RunRanks(AllRanks(4), [&](int rank) {
      const auto plane = ControlPlane::Join(ticket, 4, rank, OnLoopback(), Ample());
      joined.arrive_and_wait();
      if (rank == 1) {  // never arrives, so that no other rank gets through
        cancel.store(true);
        return others.wait();
      }
      struct Arrive {
        std::latch& latch;
        ~Arrive() { latch.count_down(); }
      } const arrive{others};
      plane->Barrier(Ample(), rank == aborter ? Cancellation(cancel) : Cancellation());
    });
    for (const int rank : {0, 2, 3}) {
      ExpectError(errors[rank], rank == aborter ? tuttiInvalidUsage : tuttiRemoteError,
                  {rank == aborter ? "aborted" : fmt::format("rank {}", aborter)});
    }
  }
}

// A rank as a process. Its exit status gives the result.
template <typename Body>
pid_t Fork(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      status = body();
    } catch (const std::exception& error) {
      fprintf(stderr, "rank process: %s\n", error.what());
    }
    _exit(status);
  }
  return child;
}

// Gives a ticket to processes that were forked before it existed. Opening a rendezvous starts a thread, and a process
// forked while a thread runs may find the allocator's lock taken forever (the address sanitizer's ignores forks).
class Handout {
 public:
  Handout() { EXPECT_EQ(pipe(ends_), 0); }
  ~Handout() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Handout(const Handout&) = delete;
  Handout& operator=(const Handout&) = delete;

  JoinTicket Open(int takers) const {
    const auto ticket = OpenRendezvous(OnLoopback());
    const auto id = EncodeUniqueId(ticket);
    for (int i = 0; i < takers; ++i) EXPECT_EQ(write(ends_[1], &id, sizeof id), static_cast<ssize_t>(sizeof id));
    return ticket;
  }
  // REQUIRES: pipes read and write this few bytes whole (PIPE_BUF).
  JoinTicket Take() const {
    tuttiUniqueId id{};
    EXPECT_EQ(read(ends_[0], &id, sizeof id), static_cast<ssize_t>(sizeof id));
    return DecodeUniqueId(id);
  }

 private:
  int ends_[2];
};

int StatusOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// One job per process: an earlier job's rendezvous thread would still run during the forks of the next.
class Processes : public ::testing::TestWithParam<int> {};

TEST_P(Processes, AreRanks) {
  const int nranks = GetParam();
  const Handout handout;
  std::vector<pid_t> children;
  for (int rank = 0; rank < nranks; ++rank) {
    children.push_back(Fork([&] {
      const auto plane = ControlPlane::Join(handout.Take(), nranks, rank, OnLoopback(), Ample());
      const auto blobs = plane->AllGather(BlobOf(rank, 100), Ample());
      for (int r = 0; r < nranks; ++r) {
        if (blobs[r] != BlobOf(r, 100)) return 2;
      }
      return plane->roster()[rank].pid == getpid() ? 0 : 3;
    }));
  }
  handout.Open(nranks);
  for (const auto child : children) EXPECT_EQ(StatusOf(child), 0);
}

INSTANTIATE_TEST_SUITE_P(ControlPlane, Processes, ::testing::ValuesIn(RankCounts({1, 8, 64})));

class Killed : public ::testing::TestWithParam<int> {};

TEST_P(Killed, IsNamedToAllOthers) {
  constexpr int kRanks = 5;
  const int victim = GetParam();
  const Handout handout;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = Fork([&] {
    const auto plane = ControlPlane::Join(handout.Take(), kRanks, victim, OnLoopback(), Ample());
    if (write(ready[1], "!", 1) != 1) return 1;
    pause();
    return 1;
  });
  const auto ticket = handout.Open(1);
  std::thread killer([&] {
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    StatusOf(child);
  });
  std::vector<int> ranks = AllRanks(kRanks);
  std::erase(ranks, victim);
  const auto errors = RunRanks(ranks, [&](int rank) {
    const auto plane = ControlPlane::Join(ticket, kRanks, rank, OnLoopback(), Ample());
    plane->AllGather(BlobOf(rank, 1000), Ample());
  });
  killer.join();
  close(ready[0]);
  close(ready[1]);
  for (const auto& error : errors) {
    ExpectError(error, tuttiRemoteError,
                {fmt::format("rank {}", victim), Process::Current().host, fmt::format("pid {}", child)});
  }
}

INSTANTIATE_TEST_SUITE_P(ControlPlane, Killed, ::testing::Values(0, 3));

TEST(ControlPlane, ForkedChildLeavesTheConnectionsAlone) {
  const auto ticket = OpenRendezvous(OnLoopback());
  const auto errors = RunRanks(AllRanks(2), [&](int rank) {
    auto plane = ControlPlane::Join(ticket, 2, rank, OnLoopback(), Ample());
    if (rank == 0) {
      EXPECT_EQ(StatusOf(Fork([&] {
                  plane.reset();
                  return 0;
                })),
                0);
    }
    plane->Barrier(Ample());
  });
  ExpectNoErrors(errors);
}

}  // namespace
}  // namespace tutti::bootstrap
