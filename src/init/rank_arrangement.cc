#include "src/init/rank_arrangement.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "base/log.h"
#include "base/number_ranges.h"
#include "selection/cost_model/host_machine.h"
#include "topology/graph/domains.h"

namespace tutti::init {
namespace {

void LogDomains(topology::DomainKind kind, const schedule::RankLayout& where) {
  std::vector<std::string> ranks;
  for (const auto& each : where.ranks_on) ranks.push_back(NumberRanges(each));
  Log(Subject::init, "ranks by {}: {}", NameOf(kind), fmt::join(ranks, " | "));
}

}  // namespace

void ArrangeRanks(const Meeting& meeting, const topology::System& system,
                  const std::vector<std::vector<int>>& processors, cost_model::TuningContext& tuning) {
  const int nranks = meeting.nranks(), virtual_nodes = meeting.settings.virtual_nodes;
  tuning.one_host = meeting.one_host();
  tuning.domains = false;
  if (!tuning.one_host) {
    tuning.where = schedule::ArrangeByNode(meeting.hosts.host_of);
  } else if (virtual_nodes > 1) {
    tuning.where = schedule::ArrangeEvenly(nranks, std::min(nranks, virtual_nodes));
  } else if (const auto domains = topology::DomainsOf(system, 0, processors)) {
    tuning.where = cost_model::ArrangeByDomain(*domains);
    tuning.domains = true;
    if (meeting.rank == 0) LogDomains(domains->kind, tuning.where);
  }
}

}  // namespace tutti::init
