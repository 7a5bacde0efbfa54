#include "algorithms/msccl/program.h"

#include <cstdint>
#include <utility>

#include "algorithms/msccl/flow.h"
#include "algorithms/msccl/text.h"
#include "algorithms/verifier/verify.h"
#include "base/files/files.h"

namespace tutti::msccl {
namespace {

// The effort for all proofs of one program, in units of some 20 ns (symbolic_run.cc): about a second.
constexpr std::int64_t kProofEffort = 60'000'000;

// Two chunks of every block, except one of the last block of a buffer (or of a rank).
std::vector<int> TwoChunks(const schedule::Schedule& schedule) {
  const bool exchange = schedule::HasBlocksOfPairs(schedule.collective);
  const int period = schedule.pieces();
  std::vector<int> lengths(static_cast<std::size_t>(schedule.blocks) * (exchange ? schedule.nranks : 1), 2);
  for (std::size_t b = static_cast<std::size_t>(period) - 1; period > 1 && b < lengths.size();
       b += static_cast<std::size_t>(period)) {
    lengths[b] = 1;
  }
  return lengths;
}

}  // namespace

Program ParseProgram(std::string_view text, const std::string& name) {
  const xml::XmlDocument document(text, name);
  const ProgramText program = ReadProgramText(document);
  return {program.name, program.in_place, FollowData(program)};
}

int RanksOfProgram(std::string_view text, const std::string& name) {
  return ReadProgramRanks(xml::XmlDocument(text, name));
}

Program ReadProgram(const std::string& path) { return ParseProgram(ReadFile(path, xml::kMaxXmlBytes), path); }

std::optional<std::string> Prove(Program& program, int slot_depth) {
  verifier::VerifyOptions options{.lengths = {TwoChunks(program.ranks.front())},
                                  .slot_depth = slot_depth,
                                  .post_depth = slot_depth,
                                  .operations = 2};
  std::int64_t effort = kProofEffort;
  options.effort = &effort;
  const auto proves = [&](bool in_place, bool by_reference) {
    options.in_place = in_place;
    options.by_reference = by_reference;
    return verifier::Verify(program.ranks, options);
  };
  const auto wrong = [&] {
    auto message = proves(false, false);
    return message || !program.in_place ? message : proves(true, false);
  };
  const auto set = [&](bool schedule::Schedule::*what, bool value) {
    for (schedule::Schedule& schedule : program.ranks) schedule.*what = value;
  };
  set(&schedule::Schedule::whole_scratch, false);
  if (wrong()) set(&schedule::Schedule::whole_scratch, true);
  if (auto message = wrong()) return message;
  program.in_place = program.in_place || !proves(true, false);
  set(&schedule::Schedule::reference_safe, !proves(false, true));
  set(&schedule::Schedule::reference_safe_in_place, program.in_place && !proves(true, true));
  return std::nullopt;
}

}  // namespace tutti::msccl
