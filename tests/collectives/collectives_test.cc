// Every collective against a plain reference: all rank counts, algorithms and kinds of memory, with everything else
// mixed by a fixed seed. Each communicator runs hundreds of operations without barriers between them.
#include <fmt/format.h>

#include <map>
#include <string>
#include <tuple>

#include "testing/collective_case.h"
#include "testing/elements.h"
#include "testing/forms.h"
#include "testing/surroundings.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

enum class Memory { plain, windows, threads };
constexpr const char* kMemories[] = {"processes", "windows", "threads"};

struct Surroundings {
  int ranks;
  std::string algorithm;  // empty: the selector's choice
  Memory memory;
  int channels;       // 0: chosen
  std::string chunk;  // empty: chosen
  bool zero_copy = true;
  bool cma = false;
  bool slot_span = false;  // the data in slots change places, also with more ranks than cores
  int virtual_nodes = 1;
  int hosts = 1;
};

// Runs `cases` on all ranks, checks each, and stops at the first that fails.
void RunCases(const Surroundings& around, const std::vector<Case>& cases, std::size_t most_bytes) {
  RunOptions options;
  options.threads = around.memory == Memory::threads;
  if (!around.chunk.empty()) options.environment.emplace_back("TUTTI_CHUNK", around.chunk);
  if (!around.zero_copy) options.environment.emplace_back("TUTTI_ZERO_COPY", "0");
  if (around.cma) options.environment.emplace_back("TUTTI_CMA", "1");
  if (around.slot_span) options.environment.emplace_back("TUTTI_SLOT_SPAN", "2097152");
  if (around.virtual_nodes > 1) {
    options.environment.emplace_back("TUTTI_VIRTUAL_NODES", std::to_string(around.virtual_nodes));
  }
  if (around.hosts > 1) options.environment.emplace_back("TUTTI_VIRTUAL_HOSTS", std::to_string(around.hosts));
  SCOPED_TRACE(
      fmt::format("{} ranks, {} hosts, {} virtual nodes, algorithm \"{}\", {} channels, chunk \"{}\", {}{}{}{}",
                  around.ranks, around.hosts, around.virtual_nodes, around.algorithm, around.channels, around.chunk,
                  kMemories[static_cast<int>(around.memory)], around.zero_copy ? "" : ", no zero copy",
                  around.cma ? ", cma" : "", around.slot_span ? ", slot span" : ""));
  RunRanks(
      around.ranks,
      [&](Rank& self) {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        if (!around.algorithm.empty()) config.algorithm = around.algorithm.c_str();
        if (around.channels != 0) config.channels = around.channels;
        const auto comm = self.Join(&config);
        ASSERT_NE(static_cast<tuttiComm_t>(comm), nullptr);
        Arena arena(around.memory == Memory::windows ? Arena::Kind::allocated : Arena::Kind::plain,
                    most_bytes + 4 * KiB);
        if (around.memory == Memory::windows) arena.Register(comm);
        for (const auto& each : cases) {
          const auto failure = RunCase(each, self.rank(), self.size(), comm, nullptr, arena);
          // No barrier needed: if a rank stops here, the other ranks miss it and fail in turn.
          ASSERT_EQ(failure, "");
        }
        if (around.memory == Memory::windows) arena.Deregister(comm);
      },
      options);
}

std::uint32_t SeedOf(const Surroundings& around) {
  std::uint32_t seed = static_cast<std::uint32_t>(around.ranks) * 131 + static_cast<std::uint32_t>(around.memory);
  for (const char letter : around.algorithm) seed = seed * 31 + static_cast<unsigned char>(letter);
  return seed & 0xffffff;
}

// What an algorithm has no form for goes the selector's way, which the tests without an algorithm follow with every
// call. So a third of such calls of each kind stays, to come between the algorithm's own on the same connections.
void LeaveSomeOut(const std::string& algorithm, std::vector<Case>& cases) {
  if (algorithm.empty()) return;
  std::map<What, int> others;
  std::erase_if(cases, [&](const Case& each) {
    // Each kind begins elsewhere, so that in each round others stay.
    return !HasForm(algorithm, each.what) && (others[each.what]++ + static_cast<int>(each.what)) % 3 != 0;
  });
}

class Collectives : public ::testing::TestWithParam<std::tuple<int, const char*>> {
 protected:
  // Rotates through channel counts, chunks, ways to reach peers' memory, and places in slots.
  static Surroundings Choose(Memory memory) {
    constexpr const char* kChunks[] = {"", "64", "4096", "320", "65536"};
    Surroundings around{std::get<0>(GetParam()), std::get<1>(GetParam()), memory, 0, ""};
    const auto seed = SeedOf(around);
    around.channels = static_cast<int>(seed % 5);
    around.chunk = kChunks[seed / 5 % 5];
    around.zero_copy = memory != Memory::plain || seed / 25 % 3 != 0;
    around.cma = memory == Memory::plain && seed / 25 % 3 == 1;
    around.slot_span = seed / 75 % 2 == 1;
    // 1, 2 or 3 nodes, of uneven size where the rank count does not divide.
    if (around.algorithm.starts_with("two_level"))
      around.virtual_nodes = 1 + (around.ranks + static_cast<int>(memory)) % 3;
    return around;
  }
  static void Run(Memory memory, bool on_hosts = false) {
    auto around = Choose(memory);
    // One rank per host, or several; or three hosts of uneven size.
    if (on_hosts) around.hosts = around.ranks % 2 == 0 && around.ranks < 8 ? around.ranks / 2 + 1 : 3;
    // With one-line chunks every 64 bytes are a step, so short messages test as much.
    const std::size_t most = around.chunk == "64" || around.chunk == "320" ? 64 * KiB
                             : around.ranks > 8                            ? MiB
                                                                           : 4 * MiB;
    // Sixteen ranks on few cores take the time of many others, so each call comes half as often.
    const int each_call = Rounds(around.ranks > 8 ? 3 : 6);
    auto cases = MixedCases(SeedOf(around), each_call * kWhats, around.ranks, most);
    LeaveSomeOut(around.algorithm, cases);
    RunCases(around, cases, most);
  }
};

TEST_P(Collectives, OfProcesses) { Run(Memory::plain); }
TEST_P(Collectives, OnWindows) { Run(Memory::windows); }
TEST_P(Collectives, OfThreads) { Run(Memory::threads); }
// Over TCP between the hosts.
TEST_P(Collectives, OfHosts) { Run(Memory::plain, true); }
TEST_P(Collectives, OfHostsOnWindows) { Run(Memory::windows, true); }
TEST_P(Collectives, OfHostsOfThreads) { Run(Memory::threads, true); }

// Every number takes an emulator minutes.
std::vector<int> RankCounts() { return Emulated() ? std::vector{4} : std::vector{1, 2, 3, 4, 5, 7, 8, 16}; }

INSTANTIATE_TEST_SUITE_P(All, Collectives,
                         ::testing::Combine(::testing::ValuesIn(RankCounts()),
                                            ::testing::Values("", "direct", "two_shot", "ring", "double_binary_tree",
                                                              "recursive", "recursive_doubling", "bruck", "binomial",
                                                              "grouped", "two_level", "two_level_tree",
                                                              "parameter_server", "all_to_all_broadcast")),
                         [](const auto& info) {
                           const int ranks = std::get<0>(info.param);
                           const std::string algorithm = std::get<1>(info.param);
                           const bool slow = ranks > 4 && ranks != 8;  // the quick tests run 8 of the many
                           return fmt::format("{}_ranks_{}{}", ranks, algorithm.empty() ? "chosen" : algorithm,
                                              slow ? "_Slow" : "");
                         });

// Each operator on each type, at sizes that cover each protocol.
TEST(ArithmeticSlow, EveryTypeAndOperator) {
  std::vector<Case> cases;
  for (int type = 0; type < tuttiNumTypes; ++type) {
    for (int op = 0; op < tuttiNumOps; ++op) {
      for (const std::size_t count : {1, 13, 365, 5001, 40'003}) {
        for (const What what : {What::all_reduce, What::reduce, What::reduce_scatter, What::reduce_scatter_v}) {
          const auto seed = static_cast<std::uint32_t>(cases.size() * 7919);
          cases.push_back(
              {what, static_cast<tuttiDataType_t>(type), static_cast<tuttiRedOp_t>(op), count, 1, seed % 3 == 0, seed});
        }
      }
    }
  }
  for (const int ranks : {2, 3}) RunCases({ranks, "", Memory::plain, 0, ""}, cases, 4 * MiB);
}

// More ranks than one reduction reads at a time, on far fewer cores.
TEST(OversubscribedSlow, SixtyFourRanks) {
  std::vector<Case> cases;
  for (const std::size_t count : {0, 1, 13, 1000, 20'000}) {
    for (const What what :
         {What::all_reduce, What::barrier, What::alltoall, What::barrier, What::shift, What::all_gather}) {
      const std::size_t used =
          what == What::all_reduce || what == What::shift ? count : std::min<std::size_t>(count, 1000);
      cases.push_back({what, tuttiFloat32, tuttiSum, used, 5, false, static_cast<std::uint32_t>(cases.size())});
    }
  }
  RunCases({64, "", Memory::plain, 0, ""}, cases, MiB);
}

// The barrier's byte belongs to the communicator; peers must find it there when they read in place.
TEST(Barrier, WhereDataIsReadInPlace) {
  for (const bool threads : {false, true}) {
    RunOptions options;
    options.environment = {{"TUTTI_CMA", "1"}, {"TUTTI_PROTO", "bulk"}};
    options.threads = threads;
    RunRanks(
        3,
        [](Rank& self) {
          const auto comm = self.Join();
          for (int i = 0; i < 3; ++i) EXPECT_TRUE(Ok(tuttiBarrier(comm, nullptr)));
        },
        options);
  }
}

}  // namespace
}  // namespace tutti::testing
