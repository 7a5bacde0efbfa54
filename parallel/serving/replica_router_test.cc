// A front and replicas of one or two ranks, each rank a process.
#include "tutti/parallel/replica_router.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <set>
#include <stdexcept>

#include "parallel/testing.h"
#include "testing/ranks.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

const ReplicaLayout kTwoOfTwo{.front = 0, .replicas = {{1, 2}, {3, 4}}};

Bytes Filled(std::size_t size, unsigned value) { return Bytes(size, static_cast<std::byte>(value)); }

// Stands in for a model: adds one to every byte.
Bytes Answer(Bytes request) {
  for (auto& byte : request) byte = static_cast<std::byte>(std::to_integer<unsigned>(byte) + 1);
  return request;
}

// Runs `serve` on each of a replica's ranks, whose own group computes, and `front` on the front.
void RunReplicas(int ranks, const ReplicaLayout& layout, ReplicaPolicy policy,
                 const std::function<void(Rank&, ReplicaRouter&)>& front,
                 const std::function<void(Rank&, Replica&, ProcessGroup&)>& serve,
                 const std::vector<int>& may_die = {}) {
  RunRanks(ranks,
           [&](Rank& self) {
             const auto comm = self.Join();
             ProcessGroup world(comm);
             if (self.rank() == layout.front) {
               ReplicaRouter router(world, layout, policy);
               front(self, router);
             } else {
               const auto mine = std::ranges::find_if(
                   layout.replicas, [&](const auto& each) { return std::ranges::count(each, self.rank()) > 0; });
               auto ranks = *mine;
               std::ranges::sort(ranks);
               ProcessGroup model(world, "model", ranks, TUTTI_CONFIG_INITIALIZER);
               Replica replica(world, layout);
               serve(self, replica, model);
             }
           },
           {.may_die = may_die});
}

TEST(ReplicaRouter, AnswersEveryRequestOnce) {
  constexpr std::size_t kRequests = 40;
  // Small requests, empty ones, and one that fits in no slot.
  const auto size_of_request = [](std::size_t i) { return i == 7 ? 5'000'000 : i % 5 * 100; };
  for (const int front : {0, 2}) {
    ReplicaLayout layout{.front = front, .replicas = {{front == 0 ? 2 : 0, 1}, {3, 4}}};
    RunReplicas(
        5, layout, ReplicaPolicy::round_robin,
        [&](Rank&, ReplicaRouter& router) {
          std::vector<std::uint64_t> ids;
          for (std::size_t i = 0; i < kRequests; ++i) {
            ids.push_back(router.submit(Filled(size_of_request(i), static_cast<unsigned>(i))));
          }
          EXPECT_EQ(router.outstanding(), kRequests);
          EXPECT_TRUE(Throws([&] { router.stop(); }, tuttiInvalidUsage, {"40 requests are outstanding"}));
          std::set<std::uint64_t> answered;
          for (std::size_t i = 0; i < kRequests; ++i) {
            const auto reply = router.wait();
            EXPECT_TRUE(answered.insert(reply.id).second) << reply.id << " twice";
            const auto which = static_cast<std::size_t>(std::ranges::find(ids, reply.id) - ids.begin());
            EXPECT_EQ(reply.replica, which % 2);
            EXPECT_EQ(reply.bytes, Answer(Filled(size_of_request(which), static_cast<unsigned>(which))));
          }
          EXPECT_FALSE(router.poll());
          EXPECT_TRUE(Throws([&] { router.wait(); }, tuttiInvalidUsage, {"0 requests are outstanding"}));
          for (const std::size_t replica : {0, 1}) {
            EXPECT_EQ(router.statistics(replica).submitted, kRequests / 2);
            EXPECT_EQ(router.statistics(replica).replied, kRequests / 2);
            EXPECT_EQ(router.statistics(replica).outstanding_cost, 0u);
          }
          router.stop();
          router.stop();
          EXPECT_TRUE(Throws([&] { router.submit({}); }, tuttiInvalidUsage, {"after stop()"}));
        },
        [&](Rank&, Replica& replica, ProcessGroup&) { EXPECT_EQ(replica.serve(Answer), kRequests / 2); });
  }
}

// The first replica answers only after the front has the second's reply.
TEST(ReplicaRouter, TakesRepliesInAnyOrder) {
  RunReplicas(
      3, {.front = 0, .replicas = {{1}, {2}}}, ReplicaPolicy::round_robin,
      [](Rank& self, ReplicaRouter& router) {
        const auto slow = router.submit(Filled(1, 0)), quick = router.submit(Filled(1, 0));
        EXPECT_EQ(router.wait().id, quick);
        self.board().numbers[0] = 1;
        EXPECT_EQ(router.wait().id, slow);
        router.stop();
      },
      [](Rank& self, Replica& replica, ProcessGroup&) {
        replica.serve([&](const Bytes& request) {
          while (self.rank() == 1 && self.board().numbers[0] == 0) sched_yield();
          return Answer(request);
        });
      });
}

// A replica has three requests under way before it answers the last one first. Ranks agree on what each poll returns.
TEST(ReplicaRouter, AReplicaHasSeveralRequestsAtATime) {
  constexpr std::size_t kRequests = 30, kAtATime = 3;
  RunReplicas(
      5, kTwoOfTwo, ReplicaPolicy::round_robin,
      [&](Rank&, ReplicaRouter& router) {
        std::set<std::uint64_t> open;
        const auto take = [&](const Reply& reply) {
          EXPECT_EQ(open.erase(reply.id), 1u) << reply.id;
          EXPECT_EQ(reply.bytes, Answer(Filled(reply.id % 4, static_cast<unsigned>(reply.id))));
        };
        for (std::size_t i = 0; i < kRequests; ++i) {
          open.insert(router.submit(Filled(i % 4, static_cast<unsigned>(i))));
          if (auto reply = router.poll()) take(*reply);
        }
        while (router.outstanding() > 0) take(router.wait());
        router.stop();
      },
      [&](Rank&, Replica& replica, ProcessGroup& model) {
        std::vector<Request> under_way;
        std::size_t served = 0;
        while (!replica.stopped()) {
          auto request = replica.poll();
          std::vector<std::uint64_t> seen(2), mine{request ? request->id : kRequests};
          model.all_gather(Tensor(mine.data(), {1}, tuttiUint64), Tensor(seen.data(), {2}, tuttiUint64));
          EXPECT_EQ(seen[0], seen[1]);
          if (request) under_way.push_back(*std::move(request));
          if (under_way.size() < std::min(kAtATime, kRequests / 2 - served)) continue;
          for (; !under_way.empty(); under_way.pop_back(), ++served) {
            replica.reply(under_way.back().id, Answer(under_way.back().bytes));
          }
        }
        EXPECT_EQ(served, kRequests / 2);
        EXPECT_FALSE(replica.poll());
      });
}

TEST(ReplicaRouter, GivesToWhoHasLeastToDo) {
  RunReplicas(
      3, {.front = 0, .replicas = {{1}, {2}}}, ReplicaPolicy::least_outstanding,
      [](Rank&, ReplicaRouter& router) {
        router.submit(Filled(1, 0), 10);
        for (int i = 0; i < 3; ++i) router.submit(Filled(1, 0), 3);
        EXPECT_EQ(router.statistics(0).submitted, 1u);
        EXPECT_EQ(router.statistics(0).outstanding_cost, 10u);
        EXPECT_EQ(router.statistics(1).outstanding_cost, 9u);
        router.submit(Filled(1, 0), 3);
        EXPECT_EQ(router.statistics(1).outstanding_cost, 12u);
        router.submit(Filled(1, 0), 3);
        EXPECT_EQ(router.statistics(0).outstanding_cost, 13u);
        while (router.outstanding() > 0) router.wait();
        router.stop();
      },
      [](Rank&, Replica& replica, ProcessGroup&) { replica.serve(Answer); });
}

// A rank of the second replica dies at its third request; the first replica answers the outstanding ones. The front
// waits for the rank that speaks for the replica; that the other is gone shows when the next request is sent.
class Killed : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Rank, Killed, ::testing::Values(3, 4));

TEST_P(Killed, ItsRequestsAreNamedAndGoElsewhere) {
  RunReplicas(
      5, kTwoOfTwo, ReplicaPolicy::round_robin,
      [](Rank&, ReplicaRouter& router) {
        constexpr std::size_t kRequests = 20;
        std::set<std::uint64_t> open;
        for (unsigned i = 0; i < kRequests; ++i) open.insert(router.submit(Filled(100, i)));
        const auto all = open;
        std::vector<std::uint64_t> outstanding;
        while (outstanding.empty()) {
          try {
            open.erase(router.wait().id);
          } catch (const ReplicaError& error) {
            EXPECT_EQ(error.code(), tuttiRemoteError) << error.what();
            EXPECT_EQ(error.replica(), 1u);
            EXPECT_NE(std::string(error.what()).find("replica 1 (ranks 3, 4 of the world) is gone"), std::string::npos)
                << error.what();
            outstanding = error.outstanding();
            EXPECT_NE(std::string(error.what()).find(fmt::format("not answered: {};", outstanding.size())),
                      std::string::npos)
                << error.what();
          }
        }
        EXPECT_FALSE(router.statistics(1).alive);
        // Replica 1 got the odd requests, and gave at most two answers.
        EXPECT_GE(outstanding.size(), kRequests / 2 - 2);
        for (const auto id : outstanding) EXPECT_TRUE(open.contains(id) && id % 2 == 1) << id;
        for (std::size_t i = 0; i < outstanding.size(); ++i) router.submit(Filled(100, 1));
        while (router.outstanding() > 0) EXPECT_EQ(router.wait().replica, 0u);
        EXPECT_EQ(router.statistics(0).replied + router.statistics(1).replied, kRequests);
        router.stop();
      },
      [](Rank& self, Replica& replica, ProcessGroup& model) {
        int requests = 0;
        const auto serve = [&] {
          replica.serve([&](const Bytes& request) {
            if (self.rank() == GetParam() && ++requests == 3) raise(SIGKILL);
            model.barrier();
            return Answer(request);
          });
        };
        if (self.rank() < 3) {
          serve();
        } else {
          EXPECT_TRUE(Throws(serve, tuttiRemoteError, {}));
        }
      },
      {GetParam()});
}

TEST(ReplicaRouter, EndsWhenNobodyIsLeftOrNobodyWaits) {
  RunReplicas(
      2, {.front = 0, .replicas = {{1}}}, ReplicaPolicy::round_robin,
      [](Rank&, ReplicaRouter& router) {
        const auto id = router.submit(Filled(1, 0));
        try {
          router.wait();
          ADD_FAILURE() << "a reply from nobody";
        } catch (const ReplicaError& error) {
          EXPECT_EQ(error.outstanding(), std::vector{id});
        }
        EXPECT_TRUE(Throws([&] { router.submit(Filled(1, 0)); }, tuttiRemoteError, {"none of the 1 replicas is left"}));
        router.stop();
      },
      [](Rank&, Replica& replica, ProcessGroup&) {
        replica.serve([](const Bytes&) -> Bytes { raise(SIGKILL), abort(); });
      },
      {1});
  // A replica that cannot answer reports it to its caller, and the front gets an error.
  RunReplicas(
      2, {.front = 0, .replicas = {{1}}}, ReplicaPolicy::round_robin,
      [](Rank&, ReplicaRouter& router) {
        router.submit(Filled(1, 0));
        EXPECT_TRUE(Throws([&] { router.wait(); }, tuttiRemoteError, {"replica 0 (ranks 1 of the world) is gone"}));
      },
      [](Rank&, Replica& replica, ProcessGroup&) {
        EXPECT_THROW(replica.serve([](const Bytes&) -> Bytes { throw std::runtime_error("no memory"); }),
                     std::runtime_error);
      });
  // A front that leaves ends its replicas.
  RunReplicas(
      2, {.front = 0, .replicas = {{1}}}, ReplicaPolicy::round_robin,
      [](Rank&, ReplicaRouter& router) {
        router.submit(Filled(1, 0));
        router.poll();
      },
      [](Rank&, Replica& replica, ProcessGroup&) {
        EXPECT_TRUE(Throws([&] { replica.serve(Answer); }, tuttiRemoteError, {}));
      });
  RunReplicas(
      3, {.front = 0, .replicas = {{1, 2}}}, ReplicaPolicy::round_robin, [](Rank&, ReplicaRouter&) {},
      [](Rank&, Replica& replica, ProcessGroup&) {
        const auto poll = [&] {
          while (!replica.stopped()) replica.poll();
        };
        EXPECT_TRUE(Throws(poll, tuttiRemoteError, {}));
      });
}

// Nothing is sent of it, so the front gets the one reply that is right.
TEST(ReplicaRouter, AReplyToNoRequestIsRefused) {
  RunReplicas(
      3, {.front = 0, .replicas = {{1, 2}}}, ReplicaPolicy::round_robin,
      [](Rank&, ReplicaRouter& router) {
        for (unsigned i = 0; i < 2; ++i) {
          const auto id = router.submit(Filled(1, i));
          const auto reply = router.wait();
          EXPECT_EQ(reply.id, id);
          EXPECT_EQ(reply.bytes, Answer(Filled(1, i)));
          EXPECT_EQ(router.outstanding(), 0u);
        }
        EXPECT_EQ(router.statistics(0).replied, 2u);
        router.stop();
      },
      [](Rank&, Replica& replica, ProcessGroup&) {
        const auto refused = [&](std::uint64_t id) {
          EXPECT_TRUE(Throws([&] { replica.reply(id, Filled(1, 9)); }, tuttiInvalidUsage,
                             {fmt::format("request {}", id), "poll() has not returned"}));
        };
        while (!replica.stopped()) {
          const auto request = replica.poll();
          if (!request) continue;
          refused(request->id + 70);
          replica.reply(request->id, Answer(request->bytes));
          refused(request->id);
        }
      });
}

// Both replicas are gone when the front stops, and the first of them is reported: stop() has not left the other one out.
TEST(ReplicaRouter, StopGoesToAllReplicas) {
  RunReplicas(
      3, {.front = 0, .replicas = {{1}, {2}}}, ReplicaPolicy::round_robin,
      [](Rank&, ReplicaRouter& router) {
        router.revoke();
        try {
          router.stop();
          ADD_FAILURE() << "nobody is gone";
        } catch (const ReplicaError& error) {
          EXPECT_EQ(error.replica(), 0u);
        }
        for (const std::size_t replica : {0, 1}) EXPECT_FALSE(router.statistics(replica).alive) << replica;
      },
      [](Rank&, Replica& replica, ProcessGroup&) {
        EXPECT_TRUE(Throws([&] { replica.serve(Answer); }, tuttiRemoteError, {}));
      });
}

TEST(ReplicaRouter, ExampleOfTheDocs) {
  RunRanks(5, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup world(comm);
    const Bytes prompt = Filled(3, 1);
    const std::uint64_t tokens = 3;
    const auto generate = Answer;
    // docs/parallel_experts.md shows this.
    const ReplicaLayout layout{.front = 0, .replicas = {{1, 2}, {3, 4}}};
    if (world.rank() == layout.front) {
      ReplicaRouter router(world, layout, ReplicaPolicy::least_outstanding);
      router.submit(prompt, tokens);      // the second is what it costs
      const Reply reply = router.wait();  // .id, .replica, .bytes
      router.stop();
      EXPECT_EQ(reply.bytes, Answer(prompt));
    } else {
      Replica replica(world, layout);
      replica.serve(generate);  // Bytes generate(const Bytes& request), on each rank of the replica
    }
  });
}

TEST(ReplicaRouter, NamesWhatDoesNotFit) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup world(comm);
    const auto refused = [&](const ReplicaLayout& layout, const std::vector<std::string>& words) {
      EXPECT_TRUE(
          Throws([&] { ReplicaRouter(world, layout, ReplicaPolicy::round_robin); }, tuttiInvalidArgument, words));
    };
    refused({.front = 0, .replicas = {{1}, {1}}}, {"rank 1 occurs twice"});
    refused({.front = 0, .replicas = {{0, 1}}}, {"rank 0 occurs twice", "the front (rank 0)"});
    refused({.front = 0, .replicas = {{1}, {}}}, {"a replica has 0 ranks"});
    refused({.front = 0, .replicas = {}}, {"there are 0 replicas"});
    refused({.front = 1 - self.rank(), .replicas = {{self.rank()}}}, {"this rank is", "the front is"});
    EXPECT_TRUE(Throws([&] { Replica(world, {.front = self.rank(), .replicas = {{1 - self.rank()}}}); },
                       tuttiInvalidArgument, {"is not in any of the 1 replicas"}));
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
