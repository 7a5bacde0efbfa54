#include "src/plan/trials.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace tutti::plan {
namespace {

constexpr int kRanks = 3;
constexpr std::array kAlgorithms = {tuttiAlgorithmRing, tuttiAlgorithmDirect, tuttiAlgorithmRecursive};

std::vector<tuner::Estimate> PlansOf(std::size_t plans) {
  std::vector<tuner::Estimate> all;
  for (std::size_t i = 0; i < plans; ++i) {
    cost_model::Candidate candidate;
    candidate.algorithm = kAlgorithms[i];
    candidate.config = {ring::Protocol::bulk, 64 * (i + 1)};
    all.push_back({kAlgorithms[i], "", candidate, 10.0 + static_cast<double>(i)});
  }
  return all;
}

// All ranks of a job in which a call repeats itself, with a clock of its own. `took`: us by plan, call and rank.
class SimulatedJob {
 public:
  using Took = std::function<double(std::size_t plan, int call, int rank)>;

  explicit SimulatedJob(std::size_t plans)
      : ranks_(kRanks, Trial("all_gather(count=8, int8)", [plans] { return PlansOf(plans); })) {}

  // Returns which plan served each call.
  std::vector<std::size_t> Call(int calls, const Took& took) {
    std::vector<std::size_t> served;
    for (int call = 0; call < calls; ++call) {
      while (ranks_.front().due()) Exchange();
      const std::size_t plan = ranks_.front().next();
      for (int r = 0; r < kRanks; ++r) {
        auto& rank = ranks_[static_cast<std::size_t>(r)];
        EXPECT_FALSE(rank.due());
        EXPECT_EQ(rank.next(), plan) << "rank " << r << " would deadlock in call " << call;
        rank.Add(took(plan, call, r));
      }
      served.push_back(plan);
    }
    return served;
  }
  const Trial& rank(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  const std::vector<std::string>& said() const { return said_; }

 private:
  // As an all-reduce does.
  static void TakeGreatest(const TrialWords& words, TrialWords& all) {
    using Numbers = std::array<float, sizeof(TrialWords) / sizeof(float)>;
    auto numbers = std::bit_cast<Numbers>(all);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = std::max(numbers[i], std::bit_cast<Numbers>(words)[i]);
    all = std::bit_cast<TrialWords>(numbers);
  }
  void Exchange() {
    TrialWords all = rank(0).Mine(true);
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_TRUE(rank(r).due());
      TakeGreatest(rank(r).Mine(r == 0), all);
    }
    std::vector<std::string> concluded;
    for (auto& rank : ranks_) concluded.push_back(rank.Conclude(all));
    for (const auto& each : concluded) EXPECT_EQ(each, concluded.front());
    if (!concluded.front().empty()) said_.push_back(concluded.front());
  }

  std::vector<Trial> ranks_;
  std::vector<std::string> said_;
};

constexpr int kLong = 120'000;  // until a trial is over

TEST(Trial, TheFastestPlanServesInTheEnd) {
  SimulatedJob job(3);
  const auto served = job.Call(kLong, [](std::size_t plan, int, int) { return plan == 1 ? 20.0 : 50.0; });
  EXPECT_EQ(served.front(), 0U);
  EXPECT_NE(std::ranges::find(served, 2U), served.end());
  EXPECT_TRUE(std::all_of(served.end() - kLong / 2, served.end(), [](std::size_t plan) { return plan == 1; }));
  EXPECT_TRUE(job.rank(2).Keeps(1));
  ASSERT_EQ(job.said().size(), 1U);
  EXPECT_NE(job.said().front().find(" 20.0 to 20.0 us (predicted 11.0), "), std::string::npos) << job.said().front();
  EXPECT_NE(job.said().front().find("; direct serves from now on"), std::string::npos) << job.said().front();
}

TEST(Trial, TheUsualPlanStaysWhereNoOtherIsClearlyFaster) {
  SimulatedJob job(2);
  const auto served = job.Call(kLong, [](std::size_t plan, int, int) { return plan == 1 ? 49.0 : 50.0; });
  EXPECT_EQ(served.back(), 0U);
}

TEST(Trial, AShortJobIsNotDisturbed) {
  SimulatedJob job(3);
  const auto served = job.Call(10'000, [](std::size_t, int, int) { return 50.0; });
  EXPECT_EQ(std::accumulate(served.begin(), served.end(), std::size_t{0}), 0U);
}

TEST(Trial, OnePlanIsNotTried) {
  SimulatedJob job(1);
  const auto served = job.Call(kLong, [](std::size_t, int, int) { return 20.0; });
  EXPECT_EQ(std::accumulate(served.begin(), served.end(), std::size_t{0}), 0U);
  EXPECT_TRUE(job.said().empty());
}

// A rank that comes late keeps the others waiting, in different calls for different lengths.
TEST(Trial, ALateRankDoesNotMatter) {
  SimulatedJob job(2);
  const auto served = job.Call(kLong, [](std::size_t plan, int call, int rank) {
    return (plan == 1 ? 20 : 30) + (rank == 2 ? 0 : 100.0 * (call % 7));
  });
  EXPECT_EQ(served.back(), 1U);
}

// Times that vary more than the plans differ decide nothing.
TEST(Trial, TheUsualPlanStaysWhereRoundsOverlap) {
  SimulatedJob job(2);
  int runs = 0;
  std::size_t last = 0;
  const auto served = job.Call(kLong, [&](std::size_t plan, int, int rank) {
    if (rank == 0 && std::exchange(last, plan) != plan) ++runs;
    return plan == 1 ? (runs < 4 ? 90.0 : 20.0) : 50.0;
  });
  EXPECT_EQ(served.back(), 0U);
}

// Where ranks share a core, some calls find all that they need, and the next one pays for it.
TEST(Trial, TheMeanOfSeveralCallsCounts) {
  SimulatedJob job(2);
  const auto served = job.Call(kLong, [](std::size_t plan, int call, int rank) {
    return plan == 1 ? ((call + rank) % 4 == 0 ? 160.0 : 1.0) : 30.0;
  });
  EXPECT_EQ(served.back(), 0U);
}

TEST(Trial, PlansAreTriedAgainWhenTheNetworkHasChanged) {
  SimulatedJob job(2);
  job.Call(kLong, [](std::size_t plan, int, int) { return plan == 1 ? 20.0 : 30.0; });
  EXPECT_EQ(job.rank(0).next(), 1U);
  const auto served = job.Call(150'000, [](std::size_t plan, int, int) { return plan == 1 ? 200.0 : 60.0; });
  EXPECT_EQ(served.back(), 0U);
  ASSERT_EQ(job.said().size(), 3U);
  EXPECT_NE(job.said()[1].find("takes 200.0 to 200.0 us now, and took 20.0 to 20.0 us"), std::string::npos)
      << job.said()[1];
}

TEST(Trial, LooksBecomeRare) {
  SimulatedJob job(2);
  int exchanges = 0, last = 0;
  for (int call = 0; call < 500'000; ++call) {
    if (job.rank(0).due()) {
      ++exchanges;
      last = call;
    }
    job.Call(1, [](std::size_t, int, int) { return 20.0; });
  }
  EXPECT_LT(exchanges, 14);
  EXPECT_GT(last, 350'000);  // but do not end
}

class TrialsOfACall : public ::testing::Test {
 protected:
  static Operation Call(schedule::Collective collective, tuttiDataType_t type, tuttiRedOp_t op) {
    Operation operation;
    operation.collective = collective;
    operation.type = type;
    operation.op = op;
    operation.count = 8;
    return operation;
  }
  static bool Tried(const Operation& operation, bool all_types) {
    Trials trials(0, all_types, [](const cost_model::Kind&, std::size_t) { return PlansOf(2); });
    return trials.Of(operation, PackCall(operation)) != nullptr;
  }
};

// Another plan would add in another order, and so change the last bits of a result in the middle of a job.
TEST_F(TrialsOfACall, SumsOfFloatsAreNotTriedUnasked) {
  using schedule::Collective;
  EXPECT_FALSE(Tried(Call(Collective::all_reduce, tuttiFloat32, tuttiSum), false));
  EXPECT_FALSE(Tried(Call(Collective::reduce_scatter, tuttiBfloat16, tuttiAvg), false));
  EXPECT_TRUE(Tried(Call(Collective::all_reduce, tuttiFloat32, tuttiSum), true));
  EXPECT_TRUE(Tried(Call(Collective::all_reduce, tuttiFloat32, tuttiMax), false));
  EXPECT_TRUE(Tried(Call(Collective::all_reduce, tuttiInt32, tuttiSum), false));
  EXPECT_TRUE(Tried(Call(Collective::all_gather, tuttiFloat32, tuttiSum), false));
  EXPECT_FALSE(Tried(Call(Collective::barrier, tuttiInt8, tuttiSum), true));
  EXPECT_FALSE(Tried(Call(Collective::broadcast, tuttiInt8, tuttiSum), true)) << "a root waits for nobody";
  EXPECT_FALSE(Tried(Call(Collective::send, tuttiInt8, tuttiSum), true));
}

TEST_F(TrialsOfACall, TheRanksExchangeIsNotTriedItself) {
  Trials trials(0, true, [](const cost_model::Kind&, std::size_t) { return PlansOf(2); });
  const auto call = Call(schedule::Collective::all_reduce, tuttiFloat32, tuttiMax);
  auto* const trial = trials.Of(call, PackCall(call));
  while (!trial->due()) trial->Add(1);
  const auto* const exchange = trials.Before(call);
  ASSERT_NE(exchange, nullptr);
  EXPECT_TRUE(exchange->own);
  EXPECT_EQ(trials.Before(*exchange), nullptr);
  EXPECT_NE(PackCall(*exchange), PackCall(Call(schedule::Collective::all_reduce, tuttiFloat32, tuttiMax)));
}

TEST_F(TrialsOfACall, ManyDifferentCallsTakeBoundedMemory) {
  Trials trials(0, true, [](const cost_model::Kind&, std::size_t) { return PlansOf(2); });
  auto call = Call(schedule::Collective::all_gather, tuttiInt8, tuttiSum);
  for (call.count = 1; call.count < 1000; ++call.count) trials.Of(call, PackCall(call));
  EXPECT_EQ(trials.Of(call, PackCall(call)), nullptr);
  call.count = 1;
  EXPECT_NE(trials.Of(call, PackCall(call)), nullptr);
}

}  // namespace
}  // namespace tutti::plan
