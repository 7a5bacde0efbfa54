#include "src/plan/programs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "algorithms/builders/records.h"
#include "algorithms/verifier/verify.h"
#include "base/all_gather.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/list_items.h"
#include "base/log.h"
#include "src/bootstrap/control_plane.h"
#include "src/bootstrap/rank_zero.h"
#include "topology/xml/xml_element.h"

namespace tutti::plan {
namespace {

// Keys of what rank 0 ships.
constexpr char kPrograms[] = "programs";
constexpr char kPath[] = "path";
constexpr char kText[] = "text";
// Keys of Prove's results.
constexpr char kInPlace[] = "in_place";
constexpr char kWholeScratch[] = "whole_scratch";
constexpr char kReference[] = "reference_safe";
constexpr char kReferenceInPlace[] = "reference_safe_in_place";

// Leaves room for the names around the texts.
constexpr std::size_t kMaxText = bootstrap::ControlPlane::kMaxBlob - 64 * 1024;

// Separated by commas or, as in MSCCL_XML_FILES, by colons.
std::vector<std::string> PathsIn(std::string_view list) {
  std::vector<std::string> paths;
  while (!list.empty()) {
    if (const auto path = TakeItem(list, ",:"); !path.empty()) paths.emplace_back(path);
  }
  return paths;
}

// Throws if the program is wrong or conflicts with these settings.
void Check(ServingProgram& serving, const Settings& settings, const cost_model::Forced& forced) {
  const schedule::Collective collective = serving.own().collective;
  const auto c = static_cast<std::size_t>(collective);
  if (forced.by_name[c]) {
    Throw(tuttiInvalidArgument, "{} is a program for {}, but TUTTI_ALGO asks for {}:{}; set only one of the two",
          serving.path, schedule::NameOf(collective), schedule::NameOf(collective),
          builders::NameOf(*forced.algorithm[c]));
  }
  if (const auto wrong = msccl::Prove(serving.program))
    Throw(tuttiInvalidArgument, "{} is wrong: {}", serving.path, *wrong);
  if (settings.deterministic && !verifier::IsDeterministic(serving.program.ranks)) {
    Throw(tuttiInvalidArgument,
          "{} cannot be used in deterministic mode: its {} does not sum every element over all ranks in rank order, "
          "rounded once",
          serving.path, schedule::NameOf(collective));
  }
}

nlohmann::json Shipped(const Settings& settings, const cost_model::Forced& forced, int nranks) {
  auto programs = nlohmann::json::array();
  std::array<std::string, schedule::kScheduledCollectives> taken;
  std::size_t length = 0;
  for (const std::string& path : PathsIn(settings.program)) {
    std::string text = ReadFile(path, xml::kMaxXmlBytes);
    if (length + text.size() > kMaxText) {
      Throw(tuttiInvalidArgument, "{}: with this program all programs have {} bytes; the limit is {}", path,
            length + text.size(), kMaxText);
    }
    if (const int ranks = msccl::RanksOfProgram(text, path); ranks != nranks) {
      Log(Subject::select, "{} is for {} ranks; this communicator has {}, so it is not used", path, ranks, nranks);
      continue;
    }
    ServingProgram serving{path, msccl::ParseProgram(text, path)};
    const schedule::Schedule& schedule = serving.own();
    auto& other = taken[static_cast<std::size_t>(schedule.collective)];
    if (!other.empty()) {
      Throw(tuttiInvalidArgument, "{} and {} are both for {} on {} ranks; only one program per collective is allowed",
            other, path, schedule::NameOf(schedule.collective), nranks);
    }
    other = path;
    length += path.size() + text.size();
    Check(serving, settings, forced);
    programs.push_back({{kPath, path},
                        {kText, std::move(text)},
                        {kInPlace, serving.program.in_place},
                        {kWholeScratch, schedule.whole_scratch},
                        {kReference, schedule.reference_safe},
                        {kReferenceInPlace, schedule.reference_safe_in_place}});
  }
  return {{kPrograms, std::move(programs)}};
}

ServingProgram Received(const JsonValue& shipped) {
  const auto path = shipped.Text(kPath);
  ServingProgram serving{path, msccl::ParseProgram(shipped.RawText(kText), path)};
  serving.program.in_place = shipped.Flag(kInPlace);
  for (schedule::Schedule& schedule : serving.program.ranks) {
    schedule.whole_scratch = shipped.Flag(kWholeScratch);
    schedule.reference_safe = shipped.Flag(kReference);
    schedule.reference_safe_in_place = shipped.Flag(kReferenceInPlace);
  }
  return serving;
}

}  // namespace

Programs::Programs(const Settings& settings, const cost_model::Forced& forced, int rank, int nranks,
                   const AllGather& all_gather) {
  const auto shipped = bootstrap::FromRankZero(rank, all_gather, [&] {
    try {
      return Shipped(settings, forced, nranks);
    } catch (const Error& error) {
      Throw(error.code(), "TUTTI_PROGRAM: {}", error.what());
    }
  });
  for (const auto& each : shipped.root().List(kPrograms)) {
    ServingProgram serving = Received(each);
    if (rank != 0) serving.program.ranks = {std::move(serving.program.ranks[static_cast<std::size_t>(rank)])};
    Serve(std::move(serving));
  }
}

void Programs::Serve(ServingProgram serving) {
  connections_ = std::max(connections_, serving.own().connections);
  auto& place = by_collective_[static_cast<std::size_t>(serving.own().collective)];
  place = std::make_unique<const ServingProgram>(std::move(serving));
}

const ServingProgram* Programs::For(const Operation& operation) const {
  if (operation.vector_counts != nullptr) return nullptr;
  const ServingProgram* serving = Of(operation.collective);
  if (serving == nullptr || (schedule::HasRoot(operation.collective) && operation.root != serving->own().root))
    return nullptr;
  return serving;
}

void Programs::CheckPlace(const Operation& operation) const {
  if (!operation.in_place) return;
  const ServingProgram* serving = For(operation);
  if (serving == nullptr || serving->program.in_place) return;
  Throw(tuttiInvalidArgument,
        "sendbuff and recvbuff are in place, but {} on this communicator uses the program {}, which in place "
        "overwrites input that it still needs; pass separate buffers, or leave {} out of TUTTI_PROGRAM",
        schedule::NameOf(operation.collective), serving->program.name, serving->path);
}

cost_model::TuningContext Programs::Among(cost_model::TuningContext tuning) const {
  tuning.max_channels = 1;
  for (std::size_t c = 0; c < by_collective_.size(); ++c) {
    if (by_collective_[c] == nullptr) continue;
    tuning.programs[c] = &by_collective_[c]->program.ranks;
    tuning.forced.algorithm[c] = builders::kFromFiles;
  }
  return tuning;
}

}  // namespace tutti::plan
