#include "tools/chosen_schedules.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "algorithms/build.h"
#include "algorithms/candidates.h"
#include "base/error.h"

namespace tutti::tools {
namespace {

// Schedules number ranks with 16 bits, and whoever looks at one has patience for no more.
constexpr int kMaxRanks = 4096;
constexpr int kMaxChannels = 64;

}  // namespace

void AddScheduleOptions(CLI::App& command, ScheduleChoice& choice) {
  command.add_option("WHAT", choice.what, "a program's FILE.xml, or an algorithm (ring, two_level, ...)")->required();
  command.add_option("COLLECTIVE", choice.collective, "all_reduce, ...: of an algorithm");
  command.add_option("--ranks", choice.ranks, "of an algorithm")->check(CLI::Range(1, kMaxRanks));
  command.add_option("--nodes", choice.nodes, "that the ranks are spread over, evenly")
      ->check(CLI::Range(1, kMaxRanks));
  command.add_option("--root", choice.root)->check(CLI::Range(0, kMaxRanks - 1));
  command.add_option("--channels", choice.channels)->check(CLI::Range(1, kMaxChannels));
}

Program ChosenSchedules(const ScheduleChoice& choice) {
  if (choice.what.ends_with(".xml")) return ReadProgram(choice.what);
  const auto algorithm = AlgorithmFromName(choice.what);
  if (!algorithm) {
    Throw(tuttiInvalidArgument, "\"{}\" is neither a FILE.xml nor an algorithm that Tutti knows", choice.what);
  }
  const Collective collective = ParseCollective(choice.collective);
  if (choice.ranks == 0) Throw(tuttiInvalidArgument, "an algorithm needs --ranks");
  if (choice.nodes > choice.ranks || choice.root >= choice.ranks) {
    Throw(tuttiInvalidArgument, "there are {} ranks: too few for {} nodes or a root {}", choice.ranks, choice.nodes,
          choice.root);
  }
  const Arrangement where = ArrangeEvenly(choice.ranks, choice.nodes);
  Question question{collective, 0, choice.ranks, choice.root, choice.channels, &where};
  Program program{choice.what, true, {}};
  for (; question.rank < question.nranks; ++question.rank) {
    auto schedule = Build(*algorithm, question);
    if (!schedule) {
      Throw(tuttiInvalidArgument, "{} has no form of {} on {} ranks", choice.what, choice.collective, choice.ranks);
    }
    program.ranks.push_back(std::move(*schedule));
  }
  return program;
}

Program ProvedSchedules(const ScheduleChoice& choice, int slots) {
  Program program = ChosenSchedules(choice);
  if (const auto wrong = Prove(program, slots)) Throw(tuttiInvalidArgument, "{} is wrong: {}", program.name, *wrong);
  return program;
}

}  // namespace tutti::tools
