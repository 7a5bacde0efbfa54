// The wrong-number campaign: random forced settings, every collective, every output element compared with a reference.
//   tutti_wrong_numbers [--seed N] [--first N] [--trials N] [--minutes N] [--only N,N,...] [--list]
// A trial depends only on the seed and its number; --only replays some. Exit status: 0 if nothing was found.
#include <fmt/format.h>
#include <getopt.h>
#include <gtest/gtest-spi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "testing/collective_case.h"
#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr std::size_t KiB = 1024;
constexpr int kMostRanks = 16;
// A hang is a fault; a busy machine is not.
constexpr std::chrono::seconds kLimit{300};

constexpr const char* kAlgorithms[] = {
    "",      "direct",   "two_shot", "ring",      "double_binary_tree", "recursive",        "recursive_doubling",
    "bruck", "binomial", "grouped",  "two_level", "two_level_tree",     "parameter_server", "all_to_all_broadcast"};

struct Trial {
  std::uint32_t number = 0;
  int ranks = 2;
  bool threads = false;  // whether the ranks are threads
  bool windows = false;
  bool on_stream = false;
  std::string algorithm;
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<Case> cases;
  std::size_t most_bytes = 0;

  std::string Describe() const {
    std::string text = fmt::format("trial {}: {} ranks as {}{}{}", number, ranks, threads ? "threads" : "processes",
                                   windows ? ", on windows" : "", on_stream ? ", on a stream" : "");
    for (const auto& [name, value] : environment) text += fmt::format(" {}={}", name, value);
    return text;
  }
};

Trial Derive(std::uint32_t seed, std::uint32_t number) {
  std::seed_seq both{seed, number};
  std::mt19937 random(both);
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  const auto one_in = [&](std::size_t n) { return pick(n) == 0; };
  Trial trial;
  trial.number = number;
  // Few ranks are more frequent: they find the most bugs and cost the least.
  trial.ranks = 2 + static_cast<int>(one_in(3) ? pick(kMostRanks - 1) : pick(5));
  trial.threads = one_in(2);
  trial.windows = one_in(3);
  trial.on_stream = one_in(4);
  trial.algorithm = kAlgorithms[pick(std::size(kAlgorithms))];
  const auto set = [&](const char* name, std::string value) { trial.environment.emplace_back(name, std::move(value)); };
  if (!trial.algorithm.empty()) set("TUTTI_ALGO", trial.algorithm);
  constexpr const char* kProtocols[] = {"line", "inline", "bulk", "bulk"};
  if (!one_in(3)) set("TUTTI_PROTO", kProtocols[pick(std::size(kProtocols))]);
  constexpr std::size_t kChunks[] = {64, 320, 1024, 4096, 65536, 328832};
  const std::size_t chunk = one_in(4) ? 0 : kChunks[pick(std::size(kChunks))];
  if (chunk != 0) set("TUTTI_CHUNK", std::to_string(chunk));
  if (!one_in(3)) set("TUTTI_CHANNELS", std::to_string(1 + pick(5)));
  if (one_in(3)) set("TUTTI_THREADS", std::to_string(2 + pick(2)));
  // Streaming stores: for all results, for those of many ranks or long messages, for none.
  constexpr const char* kStreams[] = {"1", "1", "262144", "1099511627776"};
  set("TUTTI_STREAM_BYTES", kStreams[pick(std::size(kStreams))]);
  if (one_in(4)) set("TUTTI_ZERO_COPY", "0");
  if (one_in(2)) set("TUTTI_CMA", one_in(3) ? "off" : "on");
  if (one_in(3)) set("TUTTI_VIRTUAL_HOSTS", std::to_string(2 + pick(2)));
  if (one_in(4) || trial.algorithm.starts_with("two_level")) set("TUTTI_VIRTUAL_NODES", std::to_string(2 + pick(2)));
  if (one_in(8)) set("TUTTI_DETERMINISTIC", "1");
  constexpr const char* kWaits[] = {"sleep", "yield", "spin"};
  if (one_in(3)) set("TUTTI_WAIT", kWaits[pick(trial.ranks <= 2 ? 3 : 2)]);
  // With one-line chunks every 64 bytes are a step, so short messages test as much.
  trial.most_bytes = chunk != 0 && chunk <= 320 ? 64 * KiB : one_in(4) ? 4096 * KiB : 512 * KiB;
  trial.cases =
      MixedCases(static_cast<std::uint32_t>(random() % (1U << 24)), 2 * kWhats, trial.ranks, trial.most_bytes);
  return trial;
}

struct Tally {
  std::uint64_t trials = 0;
  std::uint64_t cells = 0;     // one collective on all ranks of a trial
  std::uint64_t elements = 0;  // compared
  std::uint64_t wrong = 0;     // cells wrong on some rank
  std::uint64_t failed = 0;    // trials that did not end in success

  Tally& operator+=(const Tally& other) {
    trials += other.trials;
    cells += other.cells;
    elements += other.elements;
    wrong += other.wrong;
    failed += other.failed;
    return *this;
  }
};

Tally Run(const Trial& trial) {
  using Reporter = ::testing::ScopedFakeTestPartResultReporter;
  ::testing::TestPartResultArray results;
  std::vector<Outcome> outcomes;
  {
    const Reporter reporter(Reporter::INTERCEPT_ALL_THREADS, &results);
    outcomes =
        RunRanks(trial.ranks,
                 [&trial](Rank& self) {
                   const auto comm = self.Join();
                   ASSERT_NE(static_cast<tuttiComm_t>(comm), nullptr);
                   Arena arena(trial.windows ? Arena::Kind::allocated : Arena::Kind::plain, trial.most_bytes + 4 * KiB);
                   if (trial.windows) arena.Register(comm);
                   tuttiStream_t stream = nullptr;
                   if (trial.on_stream) { ASSERT_TRUE(Ok(tuttiStreamCreate(&stream))); }
                   for (const auto& each : trial.cases) {
                     const auto failure = RunCase(each, self.rank(), self.size(), comm, stream, arena);
                     // After a wrong result the ranks continue; after a failure they cannot.
                     if (failure.find(" wrong bytes ") != std::string::npos) {
                       self.Note("wrong " + failure);
                     } else {
                       ASSERT_EQ(failure, "");
                     }
                     self.Note(std::to_string(ElementsCompared(each, self.rank(), self.size())));
                   }
                   if (stream != nullptr) { EXPECT_TRUE(Ok(tuttiStreamDestroy(stream))); }
                   if (trial.windows) arena.Deregister(comm);
                 },
                 {.threads = trial.threads, .limit = kLimit, .environment = trial.environment});
  }
  Tally tally{.trials = 1};
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    std::uint64_t cells = 0;
    for (const auto& note : outcomes[r].notes) {
      if (note.starts_with("wrong ")) {
        ++tally.wrong;
        fmt::print("WRONG on rank {}: {}\n", r, note.substr(6));
      } else {
        ++cells;
        tally.elements += std::strtoull(note.c_str(), nullptr, 10);
      }
    }
    tally.cells = std::max(tally.cells, cells);
  }
  for (int i = 0; i < results.size(); ++i) {
    const auto& result = results.GetTestPartResult(i);
    if (!result.failed()) continue;
    tally.failed = 1;
    fmt::print("FAILED: {}\n", result.message());
  }
  return tally;
}

struct Options {
  std::uint32_t seed = 1;
  std::uint32_t first = 0;
  std::uint32_t trials = 1'000'000;
  double minutes = 0;  // 0: until all trials are done
  std::vector<std::uint32_t> only;
  bool list = false;
};

Options Parse(int argc, char** argv) {
  Options options;
  const option known[] = {{"seed", required_argument, nullptr, 's'},
                          {"first", required_argument, nullptr, 'f'},
                          {"trials", required_argument, nullptr, 't'},
                          {"minutes", required_argument, nullptr, 'm'},
                          {"only", required_argument, nullptr, 'o'},
                          {"list", no_argument, nullptr, 'l'},
                          {nullptr, 0, nullptr, 0}};
  for (int which; (which = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
    const auto number = [] { return static_cast<std::uint32_t>(std::strtoul(optarg, nullptr, 10)); };
    switch (which) {
      case 's': options.seed = number(); break;
      case 'f': options.first = number(); break;
      case 't': options.trials = number(); break;
      case 'm': options.minutes = std::strtod(optarg, nullptr); break;
      case 'o':
        for (const char* at = optarg; at != nullptr; at = std::strchr(at, ',')) {
          at += *at == ',';
          options.only.push_back(static_cast<std::uint32_t>(std::strtoul(at, nullptr, 10)));
        }
        break;
      case 'l': options.list = true; break;
      default: std::exit(2);
    }
  }
  return options;
}

int Campaign(const char* program, const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const std::chrono::duration<double, std::ratio<60>> longest(options.minutes);
  std::vector<std::uint32_t> numbers = options.only;
  for (std::uint32_t i = 0; numbers.size() < options.trials && options.only.empty(); ++i) {
    numbers.push_back(options.first + i);
  }
  std::map<std::string, Tally> tallies;
  for (const auto number : numbers) {
    if (options.minutes > 0 && Clock::now() - began > longest) break;
    const auto trial = Derive(options.seed, number);
    if (options.list || !options.only.empty()) fmt::print("{}\n", trial.Describe());
    if (options.list) continue;
    const auto tally = Run(trial);
    tallies[trial.algorithm.empty() ? "(chosen)" : trial.algorithm] += tally;
    if (tally.wrong + tally.failed != 0) {
      fmt::print("  in {}\n  replay: {} --seed {} --only {}\n", trial.Describe(), program, options.seed, number);
    }
    std::fflush(stdout);
  }
  if (options.list) return 0;
  Tally all;
  const auto row = [](const std::string& name, const Tally& tally) {
    fmt::print("{:<22}{:>8}{:>10}{:>15}{:>8}{:>8}\n", name, tally.trials, tally.cells, tally.elements, tally.wrong,
               tally.failed);
  };
  fmt::print("{:<22}{:>8}{:>10}{:>15}{:>8}{:>8}\n", "algorithm", "trials", "cells", "elements", "wrong", "failed");
  for (const auto& [name, tally] : tallies) {
    row(name, tally);
    all += tally;
  }
  row("all", all);
  fmt::print("seed {}, {:.0f} s\n", options.seed, std::chrono::duration<double>(Clock::now() - began).count());
  return all.wrong + all.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest();
  return tutti::testing::Campaign(argv[0], tutti::testing::Parse(argc, argv));
}
