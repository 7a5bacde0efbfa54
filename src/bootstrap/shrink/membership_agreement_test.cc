#include "src/bootstrap/shrink/membership_agreement.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <set>

#include "net/net_testing.h"
#include "src/bootstrap/shrink/caller.h"
#include "src/bootstrap/shrink/messages.h"
#include "testing/surroundings.h"

namespace tutti::shrink {
namespace {

using testing::AllRanks;
using testing::Ample;
using testing::ExpectNoErrors;
using testing::RunRanks;

tuttiUniqueId IdOf(int rank) {
  tuttiUniqueId id{};
  id.internal[0] = static_cast<char>(rank + 1);
  return id;
}

// The agreements of a communicator's ranks, all in this process.
class Ranks {
 public:
  explicit Ranks(int nranks, Deadline::Milliseconds silence = std::chrono::seconds(3), int backlog = 0)
      : membership_agreements_(static_cast<std::size_t>(nranks)) {
    MembershipAgreement::Ranks ranks;
    std::vector<std::unique_ptr<auth::Doorkeeper>> keepers;
    for (int rank = 0; rank < nranks; ++rank) {
      auto listeners = net::ListenOnAll({net::SocketAddress::Loopback(false, 0)}, "a rank");
      addresses_.push_back(net::LocalAddress(listeners[0]));
      if (backlog != 0) {
        EXPECT_EQ(listen(listeners[0].fd(), backlog), 0);
      }
      // As in processes of their own, each has a port.
      keepers.push_back(std::make_unique<auth::Doorkeeper>(std::make_shared<auth::Port>(std::move(listeners)), key_,
                                                           auth::Purpose::membership_agreement, rank));
      ranks.roster.push_back({fmt::format("node{}", rank / 2), 1000 + rank});
      ranks.host_of.push_back(rank / 2);
      ranks.addresses.push_back({addresses_.back()});
    }
    for (int rank = 0; rank < nranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      membership_agreements_[r] = std::make_unique<MembershipAgreement>(
          rank, ranks, std::move(keepers[r]), key_, silence, [this](int to) { return reached_.contains(to); });
    }
  }

  Reunited Meet(int rank, const std::vector<int>& excluded = {}, Deadline deadline = Ample(), Cancellation cancel = {},
                const std::vector<int>& ended = {}) {
    return membership_agreements_[static_cast<std::size_t>(rank)]->Meet(
        excluded, exact_, ended, [rank] { return IdOf(rank); }, deadline, cancel);
  }
  // From now on, all ranks but the excluded ones must come.
  void BeExact() { exact_ = true; }
  LivenessLinks& LinksOf(int rank) { return membership_agreements_[static_cast<std::size_t>(rank)]->links(); }
  void End(int rank) { membership_agreements_[static_cast<std::size_t>(rank)].reset(); }
  const auth::SecretKey& key() const { return key_; }
  // From now on a proven connection to `rank` answers.
  void RemoteAccess(int rank) { reached_.insert(rank); }
  const net::SocketAddress& AddressOf(int rank) const { return addresses_[static_cast<std::size_t>(rank)]; }

 private:
  bool exact_ = false;
  auth::SecretKey key_ = auth::SecretKey::Random();
  std::vector<net::SocketAddress> addresses_;
  std::set<int> reached_;
  std::vector<std::unique_ptr<MembershipAgreement>> membership_agreements_;
};

// `ranks` meet; each learns exactly these members, who meet where the first of them says.
void ExpectToMeet(Ranks& all, const std::vector<int>& ranks, const std::vector<int>& excluded = {}) {
  ExpectNoErrors(RunRanks(ranks, [&](int rank) {
    const auto reunited = all.Meet(rank, excluded);
    EXPECT_EQ(reunited.members, ranks);
    EXPECT_EQ(reunited.id.internal[0], IdOf(ranks.front()).internal[0]);
  }));
}

TEST(MembershipAgreement, OfAll) {
  for (const int nranks : {1, 2, 3, 8}) {
    Ranks all(nranks);
    ExpectToMeet(all, AllRanks(nranks));
    ExpectToMeet(all, AllRanks(nranks));
  }
}

TEST(MembershipAgreement, WithoutTheExcluded) {
  Ranks all(5);
  ExpectToMeet(all, {0, 2, 4}, {1, 3});
  ExpectToMeet(all, {1, 2, 3, 4}, {0});
  ExpectToMeet(all, {3}, {0, 1, 2, 4});
}

TEST(MembershipAgreement, WithoutThoseWhoHaveEnded) {
  Ranks all(6);
  all.End(3);
  ExpectToMeet(all, {0, 1, 2, 4, 5});
  all.End(0);
  all.End(1);
  ExpectToMeet(all, {2, 4, 5});
  all.End(5);
  ExpectToMeet(all, {2, 4});
  all.End(2);
  ExpectToMeet(all, {4});
}

TEST(MembershipAgreement, ExactlyAllButTheExcludedOrNone) {
  Ranks all(5);
  all.BeExact();
  ExpectToMeet(all, {0, 1, 2, 4}, {3});
  all.End(0);
  all.End(3);
  const auto refused = [&](const std::vector<int>& excluded, const std::string& words) {
    for (const auto& error : RunRanks({1, 2, 4}, [&](int rank) { all.Meet(rank, excluded); })) {
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->code(), tuttiRemoteError);
      EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what();
    }
  };
  refused({3}, "rank 0 (host node0, pid 1000) is gone: the communicator would have 3 of the 4 ranks");
  refused({}, "ranks 0 and 3 are gone");
  ExpectToMeet(all, {1, 2, 4}, {0, 3});
}

TEST(MembershipAgreement, WaitsForLateOnes) {
  Ranks all(4);
  ExpectNoErrors(RunRanks(AllRanks(4), [&](int rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(rank % 2 == 0 ? 1500 : 0));  // the leader, too
    EXPECT_EQ(all.Meet(rank).members, AllRanks(4));
  }));
}

TEST(MembershipAgreement, NamesThoseWhoLiveAndDoNotCome) {
  for (const int absent : {0, 1, 3}) {
    Ranks all(4);
    auto ranks = AllRanks(4);
    std::erase(ranks, absent);
    const auto errors = RunRanks(ranks, [&](int rank) {
      all.Meet(rank, {}, Deadline::After(std::chrono::milliseconds(absent == 0 ? 700 : 1700)));
    });
    for (const auto& error : errors) {
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->code(), tuttiTimeoutError);
      EXPECT_NE(std::string(error->what()).find(fmt::format("rank {} (host node{}", absent, absent / 2)),
                std::string::npos)
          << error->what();
    }
    ExpectToMeet(all, ranks, {absent});  // as the message advises
  }
}

TEST(MembershipAgreement, BelievesThatARankHasEndedThoughItsPortAnswers) {
  Ranks all(4);
  ExpectNoErrors(RunRanks({0, 1, 3}, [&](int rank) {
    const auto ended = rank == 3 ? std::vector<int>{2} : std::vector<int>{};
    EXPECT_EQ(all.Meet(rank, {}, Ample(), {}, ended).members, (std::vector<int>{0, 1, 3}));
  }));
}

TEST(MembershipAgreement, OfThoseWhoDisagreeOnWhomToExclude) {
  Ranks all(4);
  const auto errors = RunRanks(
      {0, 1, 2}, [&](int rank) { all.Meet(rank, rank == 1 ? std::vector<int>{} : std::vector<int>{3}, Ample()); });
  for (const auto& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), tuttiInvalidUsage);
    EXPECT_NE(std::string(error->what()).find("excludes rank 3"), std::string::npos) << error->what();
    EXPECT_NE(std::string(error->what()).find("excludes no rank"), std::string::npos) << error->what();
  }
}

TEST(MembershipAgreement, GoesOnWhenTheLeaderEndsInTheMiddle) {
  Ranks all(4);
  std::atomic<bool> stop{false};
  const auto errors = RunRanks(AllRanks(4), [&](int rank) {
    if (rank == 0) {
      std::thread after([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        stop = true;
      });
      EXPECT_THROW(all.Meet(0, {}, Ample(), Cancellation(stop)), Error);
      after.join();
      all.End(0);
      return;
    }
    if (rank == 3) std::this_thread::sleep_for(std::chrono::milliseconds(800));
    EXPECT_EQ(all.Meet(rank).members, (std::vector<int>{1, 2, 3}));
  });
  ExpectNoErrors(errors);
}

// Some ranks learn of the leader's end before its followers do; still no rank is left over.
TEST(MembershipAgreement, GoesOnWhoeverHearsFirstThatTheLeaderEnded) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    constexpr int kRanks = 8;
    Ranks all(kRanks);
    ExpectNoErrors(RunRanks(AllRanks(kRanks), [&](int rank) {
      std::mt19937 random(seed * kRanks + static_cast<unsigned>(rank));
      const std::chrono::microseconds some_time(random() % 4'000);
      if (rank > 0) {
        // The last rank ends before the leader sees it.
        std::this_thread::sleep_for(rank + 1 < kRanks ? some_time : std::chrono::milliseconds(60));
        EXPECT_EQ(all.Meet(rank).members, (std::vector<int>{1, 2, 3, 4, 5, 6, 7}));
        return;
      }
      std::atomic<bool> stop{false};
      std::thread after([&] {
        std::this_thread::sleep_for(some_time);
        stop = true;
      });
      EXPECT_THROW(all.Meet(rank, {}, Ample(), Cancellation(stop)), Error);
      after.join();
      all.End(rank);
    }));
  }
}

TEST(MembershipAgreement, AmongStrangers) {
  Ranks all(3);
  std::vector<net::Socket> strangers;
  for (int rank = 0; rank < 3; ++rank) {
    for (int i = 0; i < 40; ++i) {
      auto result = net::StartConnect(all.AddressOf(rank));
      if (!result.socket) continue;
      if (i % 2 == 0) net::SendSome(result.socket, std::vector<std::byte>(100, std::byte{0x55}));
      strangers.push_back(std::move(result.socket));
    }
  }
  all.End(1);
  ExpectToMeet(all, {0, 2});
}

TEST(MembershipAgreement, StrangersWhoFillThePortOfARankThatComputesAreNoAlarm) {
  constexpr auto kSilence = std::chrono::seconds(1);
  Ranks all(4, kSilence, /*backlog=*/8);
  std::vector<testing::IdleCalls> strangers;
  for (const int rank : AllRanks(4)) strangers.emplace_back(all.AddressOf(rank), 100);
  ExpectNoErrors(RunRanks(AllRanks(4), [&](int rank) {
    if (rank == 1 || rank == 2) std::this_thread::sleep_for(3 * kSilence);
    EXPECT_EQ(all.Meet(rank).members, AllRanks(4));
  }));
}

// Strangers have filled a port that is not served because its process is stopped.
TEST(MembershipAgreement, AFullPortOfASystemThatAnswersElsewhereIsNoAlarm) {
  for (const bool answers : {false, true}) {
    Ranks all(3, std::chrono::seconds(1));
    const auto address = all.AddressOf(2);
    all.End(2);
    const auto stopped = net::Listen(address).socket;
    ASSERT_TRUE(stopped);
    ASSERT_EQ(listen(stopped.fd(), 0), 0);
    const testing::IdleCalls strangers(address, 10);
    if (answers) all.RemoteAccess(2);
    const auto meet = [&](int rank) {
      EXPECT_EQ(all.Meet(rank, {}, Deadline::After(std::chrono::seconds(3))).members, AllRanks(2));
    };
    for (const auto& error : RunRanks(AllRanks(2), meet)) {
      EXPECT_EQ(error.has_value(), answers);
      if (error) testing::ExpectError(error, tuttiTimeoutError, {"rank 2", "is alive"});
    }
  }
}

TEST(MembershipAgreement, ACallThatIsLedToAnotherRankIsNotBelieved) {
  // Rank 2's address leads to rank 1's port.
  Ranks all(3);
  AgreementCaller caller({all.AddressOf(1)}, 0, 2, 3, std::chrono::seconds(1), [] { return false; });
  const auto give_up = Ample();
  const auto undecided = [](AgreementCaller::State state) {
    return state == AgreementCaller::State::connecting || state == AgreementCaller::State::ringing;
  };
  while (undecided(caller.Advance(all.key())) && !give_up.Passed()) std::this_thread::yield();
  EXPECT_EQ(caller.state(), AgreementCaller::State::refused);
}

// Ranks end before and while the others meet. Whichever continue, all that got a decision got the same one, and no rank
// that stayed to the end was left out.
TEST(MembershipAgreement, AgreesWhoeverEndsAtRandom) {
  for (int seed = 0; seed < testing::Rounds(40); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    const int nranks = 2 + static_cast<int>(random() % 7);
    std::vector<int> ends_after(static_cast<std::size_t>(nranks), -1);  // ms
    for (auto& end : ends_after) {
      if (random() % 3 == 0) end = static_cast<int>(random() % 300);
    }
    Ranks all(nranks);
    std::vector<std::vector<int>> told(static_cast<std::size_t>(nranks));
    const auto errors = RunRanks(AllRanks(nranks), [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (ends_after[r] < 0) {
        told[r] = all.Meet(rank).members;
        return;
      }
      std::atomic<bool> stop{false};
      std::thread after([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(ends_after[r]));
        stop = true;
      });
      try {
        all.Meet(rank, {}, Ample(), Cancellation(stop));
      } catch (const Error&) {  // cancelled, unless it had finished
      }
      after.join();
      all.End(rank);
    });
    ExpectNoErrors(errors);
    std::set<std::vector<int>> versions;
    for (std::size_t r = 0; r < told.size(); ++r) {
      if (ends_after[r] >= 0) continue;
      versions.insert(told[r]);
    }
    ASSERT_LE(versions.size(), 1u);
    if (versions.empty()) continue;
    for (std::size_t r = 0; r < told.size(); ++r) {
      const bool included = std::ranges::binary_search(*versions.begin(), static_cast<int>(r));
      EXPECT_TRUE(included || ends_after[r] >= 0) << "rank " << r;
    }
  }
}

// Between the agreement and the new communicator.
TEST(MembershipAgreement, SeesWhoEndsBeforeItHasJoined) {
  const auto ends = [](Ranks& all, int rank) {
    const auto give_up = Ample();
    while (!all.LinksOf(rank).OneEnded()) {
      if (give_up.Passed()) return false;
    }
    return true;
  };
  Ranks all(3);
  ExpectToMeet(all, {0, 1, 2});
  for (const int rank : {0, 1, 2}) EXPECT_FALSE(all.LinksOf(rank).OneEnded());
  all.LinksOf(1).SayJoined();
  all.End(1);
  EXPECT_FALSE(all.LinksOf(0).OneEnded());
  all.End(2);
  EXPECT_TRUE(ends(all, 0));

  Ranks others(2);
  ExpectToMeet(others, {0, 1});
  others.End(0);
  EXPECT_TRUE(ends(others, 1));
}

TEST(AgreementMessages, ComeBack) {
  const Presence presence{true, {1, 4095}, {0, 7}};
  EXPECT_EQ(DecodePresence(Encode(presence)), presence);
  EXPECT_EQ(DecodeFollowing(Encode(Following{42})), Following{42});
  const auto decision = DecodeDecision(Encode(Decision{tuttiRemoteError, "because", {0, 2}, IdOf(3)}));
  ASSERT_TRUE(decision.has_value());
  EXPECT_EQ(decision->code, tuttiRemoteError);
  EXPECT_EQ(decision->message, "because");
  EXPECT_EQ(decision->members, (std::vector<int>{0, 2}));
  EXPECT_EQ(decision->id.internal[0], IdOf(3).internal[0]);
  EXPECT_TRUE(DecodeJoined(Encode(Joined{})).has_value());
}

TEST(AgreementMessages, AreRefusedWhenCutOrLengthened) {
  for (const auto& bytes : {Encode(Presence{false, {1}, {2}}), Encode(Following{1}),
                            Encode(Decision{tuttiSuccess, "x", {0}, IdOf(0)}), Encode(Joined{})}) {
    for (std::size_t size = 0; size <= bytes.size() + 1; ++size) {
      if (size == bytes.size()) continue;
      auto other = bytes;
      other.resize(size);
      EXPECT_FALSE(DecodePresence(other) || DecodeFollowing(other) || DecodeDecision(other) || DecodeJoined(other))
          << size;
    }
  }
}

}  // namespace
}  // namespace tutti::shrink
