// The bench and its ranks as real processes: this executable starts itself as the ranks of a library that copies its
// input and misbehaves on demand.
#include "bench/driver/team.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "base/numbers/datatype.h"
#include "base/usage_error.h"
#include "bench/driver/launch.h"
#include "bench/driver/measure.h"

namespace tutti::bench {
namespace {

// How rank 1 misbehaves in a call of this many elements.
enum Misbehaviour : std::size_t { kCrash = 101, kHang = 102, kThrow = 103, kMiscalculate = 104 };

class Copier final : public Library {
 public:
  Copier(const Place& place, const Exchange& exchange) : place_(place) {
    const Blob mine = {static_cast<std::uint8_t>(place.rank + 1)};
    const std::vector<Blob> all = exchange(place.rank, place.ranks, mine);
    if (all.size() != static_cast<std::size_t>(place.ranks) || all[static_cast<std::size_t>(place.rank)] != mine) {
      throw std::runtime_error("the exchange mixed up the ranks");
    }
  }
  int rank() const override { return place_.rank; }
  int ranks() const override { return place_.ranks; }
  bool Supports(const Operation& operation) const override { return operation.type != tuttiFloat64; }
  std::byte* Allocate(std::size_t bytes) override { return AllocateOrdinary(bytes); }
  void Free(std::byte* memory) override { std::free(memory); }
  void Barrier() override {}
  std::string LastAlgorithm() const override { return "copy"; }

  BoundCall Bind(const Operation& operation, const Buffers& buffers) override {
    const bool misbehaves = place_.rank == 1 || place_.ranks == 1;
    return {[=] {
              if (!operation.in_place)
                std::memcpy(buffers.recv, buffers.send, operation.count * SizeOf(operation.type));
              if (misbehaves) Misbehave(operation.count, buffers.recv);
            },
            {}};
  }

 private:
  static void Misbehave(std::size_t what, std::byte* output) {
    switch (what) {
      case kCrash: ::raise(SIGKILL); break;
      case kHang: ::pause(); break;
      case kThrow: throw std::runtime_error("no such luck");
      case kMiscalculate: output[0] ^= std::byte{1}; break;
      default: break;
    }
  }

  const Place place_;
};

MeasurePlan Quick() {
  MeasurePlan plan;
  plan.iterations = 3;
  plan.timeout = Milliseconds(10'000);
  return plan;
}

Operation AllReduce(std::size_t count) { return {Collective::all_reduce, tuttiInt32, tuttiSum, 0, count, false}; }

std::vector<std::unique_ptr<Team>> Start(int ranks, int threads) {
  std::vector<std::unique_ptr<Team>> teams;
  teams.push_back(std::make_unique<Team>(kTutti, ranks, threads, ClusterShape{}, CallSettings{}, Milliseconds(20'000)));
  return teams;
}

std::string LossOf(std::size_t count, MeasurePlan plan) {
  const auto teams = Start(3, 1);
  const std::vector<Result> results = MeasureInterleaved(teams, AllReduce(count), plan, 2);
  EXPECT_FALSE(results[0].measured);
  EXPECT_FALSE(teams[0]->alive());
  EXPECT_THROW(teams[0]->Ask({{"do", "release"}}, plan.timeout), TeamLost);
  return results[0].error;
}

TEST(Team, MeasuresAndFindsTheResultRight) {
  const auto teams = Start(1, 1);
  const std::vector<Result> results = MeasureInterleaved(teams, AllReduce(1000), Quick(), 2);
  ASSERT_TRUE(results[0].measured) << results[0].error;
  EXPECT_EQ(results[0].wrong, 0u);
  EXPECT_TRUE(results[0].checked);
  EXPECT_EQ(results[0].algorithm, "copy");
  EXPECT_LE(results[0].least_median_us, results[0].median_us);
  EXPECT_LE(results[0].median_us, results[0].greatest_median_us);
  EXPECT_GT(results[0].median_us, 0);
}

TEST(Team, CountsWrongElements) {
  const auto teams = Start(1, 1);
  // One element in each of three checks: after the first call, after the timed loop, after the last call.
  EXPECT_EQ(MeasureInterleaved(teams, AllReduce(kMiscalculate), Quick(), 1)[0].wrong, 3u);
}

TEST(Team, FindsACopyWrongWhereASumIsDue) {
  const auto teams = Start(2, 1);
  EXPECT_GT(MeasureInterleaved(teams, AllReduce(1000), Quick(), 1)[0].wrong, 1000u);
}

TEST(Team, LeavesOutWhatTheLibraryCannotDo) {
  const auto teams = Start(2, 1);
  Operation operation = AllReduce(10);
  operation.type = tuttiFloat64;
  const std::vector<Result> results = MeasureInterleaved(teams, operation, Quick(), 1);
  EXPECT_FALSE(results[0].measured);
  EXPECT_TRUE(results[0].error.empty());
  EXPECT_TRUE(teams[0]->alive());
}

TEST(Team, RanksMayBeThreads) {
  const auto teams = Start(4, 2);
  EXPECT_EQ(teams[0]->ranks(), 4);
  EXPECT_TRUE(MeasureInterleaved(teams, AllReduce(10), Quick(), 1)[0].measured);
}

TEST(Team, NamesTheRankThatCrashed) {
  const std::string error = LossOf(kCrash, Quick());
  EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
  EXPECT_NE(error.find("signal 9"), std::string::npos) << error;
}

TEST(Team, NamesTheRankThatHangs) {
  MeasurePlan plan = Quick();
  plan.timeout = Milliseconds(1000);
  const std::string error = LossOf(kHang, plan);
  EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
  EXPECT_NE(error.find("no answer"), std::string::npos) << error;
}

TEST(Team, RepeatsWhatTheLibrarySaid) {
  const std::string error = LossOf(kThrow, Quick());
  EXPECT_NE(error.find("rank 1: no such luck"), std::string::npos) << error;
}

TEST(Team, RefusedIsACellThatSaysSo) {
  std::vector<std::unique_ptr<Team>> teams;
  teams.push_back(Team::Refused("nccl", "no such library"));
  EXPECT_FALSE(teams[0]->alive());
  EXPECT_EQ(teams[0]->refusal(), "no such library");
  const std::vector<Result> results = MeasureInterleaved(teams, Operation{}, Quick(), 2);
  EXPECT_TRUE(results.at(0).refused);
  EXPECT_FALSE(results[0].measured);
  EXPECT_EQ(results[0].error, "");
}

TEST(Peers, AreThoseOfTheMemory) {
  EXPECT_THROW(ResolvePeers({kNccl}, /*device=*/false), UsageError);
  EXPECT_THROW(ResolvePeers({"gloo"}, /*device=*/true), UsageError);
  EXPECT_THROW(ResolvePeers({"nccl2"}, /*device=*/true), UsageError);
}

TEST(Process, IsReapedWithItsOutputKept) {
  Process process({"/bin/sh", "-c", "echo one; echo two >&2; exit 3"}, {}, Process::Output::keep);
  EXPECT_EQ(process.Outcome(Milliseconds(10'000)), "exited with status 3");
  EXPECT_EQ(process.LastLines(1), "two");
  EXPECT_EQ(process.LastLines(5), "one\ntwo");
}

// Neither gone nor a zombie that its new parent has not yet reaped.
bool IsRunning(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const std::size_t end_of_name = text.rfind(')');
  return end_of_name != std::string::npos && text.size() > end_of_name + 2 && text[end_of_name + 2] != 'Z';
}

TEST(Process, TakesItsDescendantsAlong) {
  Process process({"/bin/sh", "-c", "trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000"}, {}, Process::Output::keep);
  while (process.LastLines(1).empty()) std::this_thread::sleep_for(Milliseconds(5));
  const pid_t descendant = std::stoi(process.LastLines(1));
  EXPECT_TRUE(IsRunning(descendant));
  process.End();
  for (int i = 0; i < 1000 && IsRunning(descendant); ++i) std::this_thread::sleep_for(Milliseconds(5));
  EXPECT_FALSE(IsRunning(descendant));
}

TEST(Process, ThatCannotBeStartedSaysSo) {
  Process process({"/no/such/program"}, {}, Process::Output::keep);
  EXPECT_EQ(process.Outcome(Milliseconds(10'000)), "exited with status 127");
}

}  // namespace

std::unique_ptr<Library> MakeLibrary(const Place& place, const CallSettings&, const Exchange& exchange) {
  return std::make_unique<Copier>(place, exchange);
}

}  // namespace tutti::bench

int main(int argc, char** argv) {
  if (const auto orders = tutti::bench::TakeOrders())
    return tutti::bench::WorkerMain(*orders, tutti::bench::MakeLibrary);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
