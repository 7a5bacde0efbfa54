// tutti run: starts the ranks of a program on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/json.h"
#include "base/plain_text.h"
#include "tools/commands.h"
#include "tools/run/ranks.h"

namespace tutti::tools {
namespace {

constexpr int kMostRanks = 1024;
constexpr double kLongestPatienceS = 1e8;  // some three years; the clock counts nanoseconds in 64 bits

// CLI::Range takes what is not a number.
std::string WhyNoPatience(const std::string& text) {
  double seconds = 0;
  const bool fits = CLI::detail::lexical_cast(text, seconds) && seconds >= 0 && seconds <= kLongestPatienceS;
  return fits ? "" : fmt::format("{} is not a number of seconds from 0 to {}", Quoted(text), kLongestPatienceS);
}

std::string WhyNoRanks(const std::string& text) {
  int ranks = 0;
  if (CLI::detail::lexical_cast(text, ranks) && ranks >= 1 && ranks <= kMostRanks) return "";
  const bool mpirun = text.starts_with('p');  // its -np 2 is -n p here, and PROGRAM 2
  return fmt::format("{} is not a number of ranks from 1 to {}{}", Quoted(text), kMostRanks,
                     mpirun ? "; write -n 2 for mpirun's -np 2" : "");
}

struct RunOptions {
  std::vector<std::string> command;
  int ranks = 0;
  bool tag = false;
  double patience_s = 5;  // Tutti's ranks notice a dead one within a second, and say so
  std::string json;       // the file; standard output is the ranks'
};

nlohmann::ordered_json JsonOf(const JobEnd& end) {
  nlohmann::ordered_json json = {
      {"status", end.status}, {"failed_first", nullptr}, {"ranks", nlohmann::ordered_json::array()}};
  if (end.failed_first) json["failed_first"] = *end.failed_first;
  for (std::size_t r = 0; r < end.ranks.size(); ++r) {
    const RankEnd& rank = end.ranks[r];
    json["ranks"].push_back(
        {{"rank", r},
         {"pid", rank.pid},
         {"status", rank.status},
         {"signal", rank.signal == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(rank.signal)},
         {"us", rank.ran.count()}});
  }
  return json;
}

}  // namespace

void AddRun(CLI::App& app, int& status) {
  auto* const command = app.add_subcommand("run", "start the ranks of a program on this machine");
  const auto options = std::make_shared<RunOptions>();
  options->ranks = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command
      ->add_option("PROGRAM", options->command, "the program and its arguments; one that ends in .py runs in python3")
      ->required();
  command->positionals_at_end();  // what follows PROGRAM is its own
  command->add_option("-n,--ranks", options->ranks, "number of ranks; default: one for each processor")
      ->check(WhyNoRanks, fmt::format("INT in [1 - {}]", kMostRanks));
  command->add_flag("--tag", options->tag, "begin each line of output with the number of its rank");
  command
      ->add_option("--patience", options->patience_s,
                   "seconds that the other ranks have to end by themselves after one has failed")
      ->check(WhyNoPatience)
      ->capture_default_str();
  command->add_option("--json", options->json, "file for how each rank ended, as JSON");
  command->footer(
      "Ranks find each other by RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as with "
      "torchrun. OMP_NUM_THREADS, if it is not set, is this process's processors divided by the ranks. The exit status "
      "is "
      "that of the first rank that failed; 128 + N if signal N ended it.");
  command->callback([options, &status] {
    RanksWanted wanted{options->ranks, options->command, options->tag,
                       std::chrono::milliseconds(static_cast<long>(options->patience_s * 1000))};
    if (const std::string program = wanted.command.front(); program.ends_with(".py")) {
      if (access(program.c_str(), R_OK) != 0) {  // Python would say so for each rank
        fmt::print(stderr, "tutti run: cannot execute {}: {}\n", Printable(program), ErrnoText(errno));
        status = kCannotExecute;
        return;
      }
      wanted.command.insert(wanted.command.begin(), "python3");
    }
    const JobEnd end = RunRanks(wanted);
    if (!options->json.empty()) WriteFile(options->json, JsonText(JsonOf(end)));
    status = end.status;
  });
}

}  // namespace tutti::tools
