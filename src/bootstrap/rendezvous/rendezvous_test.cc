#include "src/bootstrap/rendezvous/rendezvous.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "net/auth/dial.h"
#include "net/net_testing.h"
#include "src/bootstrap/control_plane.h"
#include "src/bootstrap/job_source.h"
#include "testing/descriptors.h"
#include "testing/own_network.h"
#include "testing/surroundings.h"

namespace tutti::bootstrap {
namespace {

using testing::AllRanks;
using testing::Ample;
using testing::ExpectError;
using testing::ExpectNoErrors;
using testing::OnLoopback;
using testing::RunRanks;

std::unique_ptr<ControlPlane> Join(const JoinTicket& ticket, int nranks, int rank, Deadline deadline = Ample(),
                                   Cancellation cancel = {}) {
  return ControlPlane::Join(ticket, nranks, rank, OnLoopback(), deadline, cancel);
}

// A ticket for rank 0 to serve on a loopback port.
JoinTicket FixedTicket(std::uint16_t port, const std::string& secret = "a job") {
  Settings settings = OnLoopback();
  settings.comm_id = fmt::format("127.0.0.1:{}", port);
  settings.secret = secret;
  return TicketFromCommId(settings, [](std::string_view) { return std::nullopt; });
}

// Joins up to waiting for the verdict, as any rank of any library version.
auth::SecureChannel Knock(const JoinTicket& ticket, int nranks, int rank, const JoinRequest& request) {
  auto channel = auth::Dial({.addresses = ticket.addresses,
                             .purpose = auth::Purpose::rendezvous,
                             .rank = rank,
                             .nranks = nranks,
                             .may_be_early = false,
                             .whom = "the rendezvous"},
                            RendezvousKey(ticket), Ample());
  channel.Queue(Encode(request));
  return channel;
}

TEST(Rendezvous, MissingRanksAreNamedToEverybodyWhoCame) {
  const auto ticket = OpenRendezvous(OnLoopback());
  const auto errors =
      RunRanks({0, 2, 4}, [&](int rank) { Join(ticket, 5, rank, Deadline::After(std::chrono::milliseconds(200))); });
  for (const auto& error : errors) ExpectError(error, tuttiTimeoutError, {"ranks 1 and 3", "of 5"});
  // Late ranks get the same reason.
  const auto late = RunRanks({3}, [&](int rank) { Join(ticket, 5, rank); });
  ExpectError(late[0], tuttiTimeoutError, {"ranks 1 and 3"});
}

TEST(Rendezvous, RankTakenTwiceNamesBoth) {
  const auto ticket = OpenRendezvous(OnLoopback());
  const JoinRequest other{.version = TUTTI_VERSION_CODE, .process = {"elsewhere", 4711}, .hub = {}};
  const auto channel = Knock(ticket, 3, 1, other);
  const auto errors = RunRanks({1}, [&](int rank) { Join(ticket, 3, rank); });
  ExpectError(
      errors[0], tuttiInvalidUsage,
      {"rank 1", "twice", "host elsewhere, pid 4711", fmt::format("pid {}", getpid()), Process::Current().host});
}

TEST(Rendezvous, DisagreementOnNranksNamesBoth) {
  const auto ticket = OpenRendezvous(OnLoopback());
  const auto errors = RunRanks({0, 1}, [&](int rank) { Join(ticket, rank == 0 ? 2 : 3, rank); });
  for (const auto& error : errors)
    ExpectError(error, tuttiInvalidUsage, {"nranks", "rank 0", "rank 1", "passed 2", "passed 3"});
}

TEST(Rendezvous, OtherVersionIsRefusedNamingBoth) {
  const auto ticket = OpenRendezvous(OnLoopback());
  const auto channel =
      Knock(ticket, 2, 1, {.version = 99 * 10000 + 7 * 100 + 3, .process = {"elsewhere", 1}, .hub = {}});
  const auto errors = RunRanks({0}, [&](int rank) { Join(ticket, 2, rank); });
  ExpectError(errors[0], tuttiInvalidUsage, {"rank 1", "99.7.3", VersionText(TUTTI_VERSION_CODE)});
}

TEST(Rendezvous, RankThatLeavesIsNamed) {
  const auto ticket = OpenRendezvous(OnLoopback());
  { auto channel = Knock(ticket, 3, 2, {.version = TUTTI_VERSION_CODE, .process = {"elsewhere", 4711}, .hub = {}}); }
  const auto errors = RunRanks({0, 1}, [&](int rank) { Join(ticket, 3, rank); });
  for (const auto& error : errors) ExpectError(error, tuttiRemoteError, {"rank 2 (host elsewhere, pid 4711)"});
}

// Between the verdict and rank 0: the rendezvous sees the rank leave, so the others need not wait for their deadline.
TEST(Rendezvous, RankThatLeavesAfterTheVerdictIsNamed) {
  const auto ticket = OpenRendezvous(OnLoopback());
  std::thread leaver([&] {
    auto channel = Knock(ticket, 4, 2, {.version = TUTTI_VERSION_CODE, .process = {"elsewhere", 4711}, .hub = {}});
    pollfd fd = channel.Watch();
    while (!channel.Receive()) ASSERT_EQ(net::Wait({&fd, 1}, Ample()), net::Wake::event);
  });
  const auto errors = RunRanks({0, 1, 3}, [&](int rank) { Join(ticket, 4, rank); });
  leaver.join();
  for (const auto& error : errors) ExpectError(error, tuttiRemoteError, {"rank 2 (host elsewhere, pid 4711)"});
}

TEST(Rendezvous, CancelEndsJoining) {
  const auto ticket = OpenRendezvous(OnLoopback());
  std::atomic<bool> cancel{false};
  std::thread canceller([&] {
    // By then both ranks have proved the secret, which takes an emulator longer.
    std::this_thread::sleep_for(std::chrono::milliseconds(testing::Emulated() ? 5000 : 20));
    cancel.store(true);
  });
  const auto errors = RunRanks(
      {0, 1}, [&](int rank) { Join(ticket, 3, rank, Ample(), rank == 1 ? Cancellation(cancel) : Cancellation()); });
  canceller.join();
  ExpectError(errors[0], tuttiRemoteError, {"rank 1", "left"});
  ExpectError(errors[1], tuttiInvalidUsage, {"aborted"});

  // Also before any process listens.
  const auto nobody = FixedTicket(testing::FreePort());
  const auto early = RunRanks({1}, [&](int rank) { Join(nobody, 2, rank, Ample(), Cancellation(cancel)); });
  ExpectError(early[0], tuttiInvalidUsage, {"aborted"});
}

TEST(Rendezvous, RefusesRanksOutOfRange) {
  const auto ticket = OpenRendezvous(OnLoopback());
  for (const auto& [nranks, rank] : {std::pair(0, 0), {-1, 0}, {2, 2}, {2, -1}, {1 << 30, 0}}) {
    const auto errors = RunRanks({rank}, [&, n = nranks](int r) { Join(ticket, n, r); });
    ExpectError(errors[0], tuttiInvalidArgument, {"must be from"});
  }
}

TEST(Rendezvous, IsGoneOnceServed) {
  const auto ticket = OpenRendezvous(OnLoopback());
  ExpectNoErrors(RunRanks({0}, [&](int rank) { Join(ticket, 1, rank); }));
  const auto errors = RunRanks({0}, [&](int rank) { Join(ticket, 1, rank); });
  ExpectError(errors[0], tuttiRemoteError, {"rendezvous", "gone"});
}

TEST(Rendezvous, ServerStopsAtOnceWhenDestroyed) {
  auto result = net::Listen(net::SocketAddress::Loopback(false, 0));
  std::vector<net::Socket> listeners;
  listeners.push_back(std::move(result.socket));
  JoinTicket ticket;
  auto server = std::make_unique<RendezvousServer>(std::move(listeners), RendezvousKey(ticket), std::chrono::hours(1));
  ticket.addresses = server->addresses();
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    server.reset();
  });
  const auto errors = RunRanks({0, 1}, [&](int rank) { Join(ticket, 3, rank); });
  stopper.join();
  for (const auto& error : errors) ExpectError(error, tuttiRemoteError, {"rendezvous"});
}

// Exit must not hang on a rendezvous that no rank joined.
TEST(RendezvousDeathTest, ProcessExitsWithOneOpen) {
  if (const auto why = testing::WhyNoNewProgram(); !why.empty()) GTEST_SKIP() << why;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        alarm(60);
        OpenRendezvous(OnLoopback());
        exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

// A forked child's exit must not touch its parent's rendezvous.
TEST(Rendezvous, ForkedChildExitsAndHasItsOwn) {
  if (const auto why = testing::WhyNoForkBesideThreads(); !why.empty()) GTEST_SKIP() << why;
  const auto parents = OpenRendezvous(OnLoopback());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    OpenRendezvous(OnLoopback());
    exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  ExpectNoErrors(RunRanks(AllRanks(2), [&](int rank) { Join(parents, 2, rank); }));
}

TEST(Rendezvous, ManyJobsOneAfterAnotherLeaveNothingOpen) {
  const auto run = [] {
    const auto ticket = OpenRendezvous(OnLoopback());
    ExpectNoErrors(RunRanks(AllRanks(3), [&](int rank) { Join(ticket, 3, rank); }));
  };
  run();
  const auto before = testing::OpenDescriptors();
  for (int job = 0; job < 50; ++job) run();
  // The next server cleans up one that has just finished.
  constexpr std::size_t kSlack = 12;
  EXPECT_LE(testing::OpenDescriptors(), before + kSlack);
}

TEST(FixedAddress, RanksMayComeBeforeRankZero) {
  for (const bool v6 : {false, true}) {
    if (v6 && !testing::HasV6Loopback()) continue;
    Settings settings = OnLoopback(v6);
    settings.comm_id = fmt::format("{}:{}", v6 ? "[::1]" : "127.0.0.1", testing::FreePort(v6));
    const auto ticket = TicketFromCommId(settings, [](std::string_view) { return std::nullopt; });
    const auto errors = RunRanks(AllRanks(4), [&](int rank) {
      if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      // As tuttiGetUniqueId and tuttiCommInitRank pass it on.
      ControlPlane::Join(DecodeUniqueId(EncodeUniqueId(ticket)), 4, rank, settings, Ample());
    });
    ExpectNoErrors(errors);
  }
}

TEST(FixedAddress, OneJobAfterAnotherOnOnePort) {
  const auto port = testing::FreePort();
  ExpectNoErrors(RunRanks(AllRanks(4), [&](int rank) {
    for (int job = 0; job < 20; ++job) Join(FixedTicket(port, fmt::format("job {}", job)), 4, rank)->Barrier(Ample());
  }));
}

TEST(FixedAddress, SecondJobOnTheSamePortIsTold) {
  const auto port = testing::FreePort();
  std::atomic<bool> second_over{false};
  std::vector<std::optional<Error>> second;
  // The first job's rank 1 joins only after the second job has given up, so the first rendezvous stays open until then.
  const auto first = RunRanks({0, 1, 2}, [&](int rank) {
    if (rank < 2) {
      while (rank == 1 && !second_over.load()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      Join(FixedTicket(port, "first"), 2, rank);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    second = RunRanks({0, 1}, [&](int r) {
      Join(FixedTicket(port, "second"), 2, r, Deadline::After(std::chrono::milliseconds(500)));
    });
    second_over.store(true);
  });
  ExpectNoErrors(first);
  ExpectError(second[0], tuttiInvalidUsage, {fmt::format("127.0.0.1:{}", port), "another job"});
  ASSERT_TRUE(second[1].has_value());
  EXPECT_NE(std::string(second[1]->what()).find("another secret"), std::string::npos) << second[1]->what();
}

TEST(FixedAddress, NobodyThereIsATimeoutThatSaysWhere) {
  const auto port = testing::FreePort();
  const auto errors = RunRanks(
      {1}, [&](int rank) { Join(FixedTicket(port), 2, rank, Deadline::After(std::chrono::milliseconds(100))); });
  ExpectError(errors[0], tuttiTimeoutError, {"opened by rank 0", fmt::format("127.0.0.1:{}", port), "refused"});
}

TEST(FixedAddress, SameProcessMayTryAgainAfterAFailure) {
  const auto port = testing::FreePort();
  const auto ticket = FixedTicket(port);  // takes a while, which the deadline does not include
  const auto errors =
      RunRanks({0}, [&](int rank) { Join(ticket, 2, rank, Deadline::After(std::chrono::milliseconds(100))); });
  ExpectError(errors[0], tuttiTimeoutError, {"rank 1"});
  ExpectNoErrors(RunRanks(AllRanks(2), [&](int rank) { Join(FixedTicket(port, "again"), 2, rank); }));
}

// Such a job may have no secret. Rank 0 must not listen on other addresses in place of one that it does not have.
TEST(FixedAddress, AJobOnLoopbackListensNowhereElse) {
  const testing::OwnNetwork network({"-6 addr del ::1/128 dev lo"});
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  Settings settings;
  settings.comm_id = "[::1]:29500";
  const auto ticket = TicketFromCommId(settings, [](std::string_view) { return std::nullopt; });
  RendezvousHold hold;
  EXPECT_THROW(OpenRendezvousFor(ticket, settings, Ample(), {}, hold), Error);
}

// Other hosts cannot use loopback's addresses, so rank 0 must not offer them.
TEST(FixedAddress, AMachineWithLinkLocalAddressesAloneIsTold) {
  const testing::OwnNetwork network({"link add eth0 type veth peer name peer", "link set eth0 up", "link set peer up",
                                     "addr add fe80::77/64 dev eth0 nodad"});
  if (!network.why_not().empty()) GTEST_SKIP() << network.why_not();
  Settings settings;
  settings.comm_id = "[fe80::77%eth0]:29500";
  settings.secret = "a job";
  const auto ticket = TicketFromCommId(settings, [](std::string_view) { return std::nullopt; });
  try {
    ControlPlane::Join(ticket, 2, 0, settings, Deadline::After(std::chrono::milliseconds(200)));
    FAIL() << "rank 0 joined alone";
  } catch (const Error& error) {
    ExpectError(error, tuttiInvalidUsage, {"link-local", "TUTTI_SOCKET_IFNAME=lo"});
  }
}

TEST(Rendezvous, ARankWithoutAnInterfaceTellsTheOthers) {
  auto ticket = OpenRendezvous(OnLoopback());
  ticket.listen_everywhere = true;  // so each rank chooses its addresses
  const auto errors = RunRanks(AllRanks(3), [&](int rank) {
    auto settings = OnLoopback();
    if (rank == 1) settings.socket_ifname = "=nowhere";
    const auto plane = ControlPlane::Join(ticket, 3, rank, settings, Ample());
    plane->Barrier(Ample());
  });
  for (const auto& error : errors) ExpectError(error, tuttiInvalidUsage, {"no network address matches", "=nowhere"});
  ExpectError(errors[0], tuttiInvalidUsage, {"rank 1"});
}

}  // namespace
}  // namespace tutti::bootstrap
