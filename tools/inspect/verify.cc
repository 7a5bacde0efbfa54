// tutti verify: proves a schedule, or reports what is wrong with it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "algorithms/builders/build.h"
#include "base/error.h"
#include "base/report/progress.h"
#include "tools/commands.h"
#include "tools/inspect/chosen_schedules.h"
#include "tools/json.h"

namespace tutti::tools {
namespace {

// More slots than any connection has.
constexpr int kMaxSlots = 1024;

struct VerifyCommandOptions {
  ScheduleChoice choice;
  int slots = ring::kBulkDepth;
  bool json = false;
};

void Verify(const VerifyCommandOptions& options) {
  report::Progress progress(1);
  progress.Step(fmt::format("proving {} {}", options.choice.what, options.choice.algorithm));
  const msccl::Program program = ProvedSchedules(options.choice, options.slots);
  progress.Clear();
  const schedule::Schedule& first = program.ranks.front();
  if (options.json) {
    return PrintJson({{"proved", true},
                      {"collective", schedule::NameOf(first.collective)},
                      {"by", program.name},
                      {"ranks", first.nranks},
                      {"in_place", program.in_place},
                      {"slots", options.slots}});
  }
  fmt::print("proved: {} by {} on {} ranks, {}, with {} slots a connection or more\n",
             schedule::NameOf(first.collective), program.name, first.nranks,
             program.in_place ? "in place and not" : "not in place", options.slots);
}

}  // namespace

void AddVerify(CLI::App& app) {
  auto* const command = app.add_subcommand("verify", "prove that a schedule computes its collective correctly");
  const auto options = std::make_shared<VerifyCommandOptions>();
  AddScheduleOptions(*command, options->choice);
  command->add_option("--slots", options->slots, "number of slots that each connection has at least")
      ->check(CLI::Range(1, kMaxSlots));
  AddJsonFlag(*command, options->json);
  command->callback([options] { Verify(*options); });
}

}  // namespace tutti::tools
