#include "selection/cost_model/cost_model.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "algorithms/schedule/binding.h"

namespace tutti::cost_model {
namespace {

constexpr double kPageBytes = 4096;

// Chunk sizes for which the longest paths are found: the usual sizes of whole chunks (candidates.cc).
constexpr std::array<double, 6> kGrid = {0, ring::kInlineShape.capacity, 8 << 10, 32 << 10, 128 << 10, 512 << 10};

}  // namespace

double CostModel::Path::Microseconds(const Rates& rates, double bytes, double sharing) const {
  return fixed + sharing * bytes * network_us_per_byte +
         bytes * (memory_operands * rates.memory + slot_reads * rates.slot_read + slot_writes * rates.slot_write +
                  summands * rates.summand + us_per_byte);
}

void CostModel::Path::Add(const Path& other, double times) {
  fixed += times * other.fixed;
  memory_operands += times * other.memory_operands;
  slot_reads += times * other.slot_reads;
  slot_writes += times * other.slot_writes;
  summands += times * other.summands;
  us_per_byte += times * other.us_per_byte;
  network_us_per_byte += times * other.network_us_per_byte;
}

CostModel::CostModel(const Machine& machine, const RepresentativeRanks& representatives)
    : machine_(machine),
      unit_(representatives.unit()),
      blocks_(representatives.members().front().blocks),
      graph_(machine, representatives),
      traffic_(machine, representatives, graph_) {
  FindShares(representatives);
  FindProxies();
  for (const auto& way : graph_.ways) {
    if (!way.network)
      latency_within_node_ =
          std::max(latency_within_node_, way.latency[static_cast<std::size_t>(ring::Protocol::bulk)]);
  }
}

// Every slot that crosses the network passes the proxies of both ranks, one after the other.
void CostModel::FindProxies() {
  if (!has_proxies()) return;
  std::vector<int> messages(slowdown_.size());
  for (const auto& send : graph_.sends) {
    if (graph_.ways[send.way].network) messages[send.member] += send.slots;
  }
  for (std::size_t i = 0; i + 1 < graph_.nodes.size(); ++i) {
    for (int w = graph_.nodes[i].first_wait; w < graph_.nodes[i + 1].first_wait; ++w) {
      const int way = graph_.waits[w].way;
      if (way != -1 && graph_.ways[way].network) ++messages[graph_.nodes[i].member];
    }
  }
  proxy_us_ = machine_.costs().message_us * *std::max_element(messages.begin(), messages.end());
}

// A core divides itself among its ranks by their work: with equal work each is slowed by the number of ranks; one that
// works while the others poll is not slowed.
void CostModel::FindShares(const RepresentativeRanks& representatives) {
  const auto members = representatives.members().size();
  std::vector<double> work(members);
  for (std::size_t i = 0; i + 1 < graph_.nodes.size(); ++i) {
    const auto& each = graph_.works[graph_.nodes[i].work].copying;
    work[graph_.nodes[i].member] += each.memory + each.slot_reads + each.slot_writes;
  }
  for (const auto& each : graph_.works) {
    if (each.fetching.fetches > 0) fetched_ = std::max(fetched_, each.fetching.slot_writes);
  }
  slowdown_.assign(members, machine_.ranks_per_core());
  turn_us_ = machine_.ranks_per_core() > 1 ? machine_.ranks_per_core() * machine_.costs().yield_us : 0;
  if (machine_.costs().cores == 0 || !representatives.complete() || machine_.ranks_per_core() <= 1) return;
  for (const auto& ranks : machine_.rank_layout().ranks_on) {
    const auto cores = static_cast<std::size_t>(machine_.costs().cores);
    for (std::size_t core = 0; core < std::min(cores, ranks.size()); ++core) {
      double sum = 0;
      double most = 0;
      for (std::size_t i = core; i < ranks.size(); i += cores) {
        sum += work[ranks[i]];
        most = std::max(most, work[ranks[i]]);
      }
      for (std::size_t i = core; i < ranks.size(); i += cores) slowdown_[ranks[i]] = most > 0 ? sum / most : 1;
    }
  }
}

CostModel::Path CostModel::StepPath(const StepGraph::Work& work, SlotUse use, const Rates& rates) const {
  const Costs& costs = machine_.costs();
  const auto w = static_cast<std::size_t>(use.protocol);
  const auto& operands = use.cma ? work.fetching : work.copying;
  Path path;
  path.fixed = costs.step_us + work.read_us + costs.slot_us[w] * (work.copying.slot_reads + work.copying.slot_writes) +
               costs.fetch_us * operands.fetches;
  const Path moving{0,
                    static_cast<double>(operands.memory),
                    static_cast<double>(operands.slot_reads),
                    static_cast<double>(operands.slot_writes),
                    static_cast<double>(operands.summands),
                    costs.fetch_page_us / kPageBytes * operands.fetches};
  const Path crossing{0, 0, 0, 0, 0, work.us_per_byte / costs.protocol_efficiency[w]};
  path.Add(moving.Microseconds(rates, 1) >= crossing.us_per_byte ? moving : crossing, 1);
  if (!has_proxies()) {
    path.fixed += costs.message_us * (work.messages - work.riding);
    path.us_per_byte += UsPerByte(costs.message_bandwidth) * work.messages;
  }
  return path;
}

CostModel::Path CostModel::WayPath(const StepGraph::Way& way, ring::Protocol protocol) const {
  const Costs& costs = machine_.costs();
  const auto w = static_cast<std::size_t>(costs.On(way.network, protocol));
  Path path{.fixed = way.latency[w] + turn_us_};
  if (way.network) {
    if (has_proxies()) path.fixed += 2 * costs.message_us;  // both ranks'
    path.network_us_per_byte = way.us_per_byte / costs.protocol_efficiency[w];
  }
  return path;
}

// One chunk's steps in the order of their dependencies.
struct CostModel::Walked {
  const StepGraph& graph;
  const std::vector<double>& slowdown;
  std::vector<Path> step_paths;  // by work
  std::vector<Path> way_paths;
  std::vector<double> begin, end;  // by node
  std::vector<int> last_wait;      // the wait that ended last; -1: none

  int steps() const { return static_cast<int>(end.size()); }
  void AddStep(int i, Path& path) const { path.Add(step_paths[graph.nodes[i].work], slowdown[graph.nodes[i].member]); }
  Path PathTo(int i) const;
  int NetworkWait(int i) const;
  std::optional<Path> AroundNetwork(int last) const;
};

// The path to the step's end.
CostModel::Path CostModel::Walked::PathTo(int i) const {
  Path path;
  for (;;) {
    AddStep(i, path);
    if (last_wait[i] == -1) return path;
    const auto& wait = graph.waits[last_wait[i]];
    if (wait.way != -1) path.Add(way_paths[wait.way], 1);
    i = wait.node;
  }
}

int CostModel::Walked::NetworkWait(int i) const {
  for (int w = graph.nodes[i].first_wait; w < graph.nodes[i + 1].first_wait; ++w) {
    if (graph.waits[w].way != -1 && graph.ways[graph.waits[w].way].network) return w;
  }
  return -1;
}

// The path until the first slot for the network is filled, plus the path from the last network crossing that the `last`
// step waits for, whatever else it waits for in between.
std::optional<CostModel::Path> CostModel::Walked::AroundNetwork(int last) const {
  int first_sent = -1;
  for (int i = 0; i < steps(); ++i) {
    const int w = NetworkWait(i);
    if (w != -1 && (first_sent == -1 || end[graph.waits[w].node] < end[first_sent])) first_sent = graph.waits[w].node;
  }
  if (first_sent == -1) return std::nullopt;
  Path path = PathTo(first_sent);
  for (int i = last;;) {
    AddStep(i, path);
    const int over_network = NetworkWait(i);
    const int w = over_network != -1 ? over_network : last_wait[i];
    if (w == -1) break;
    if (graph.waits[w].way != -1) path.Add(way_paths[graph.waits[w].way], 1);
    if (over_network != -1) break;
    i = graph.waits[w].node;
  }
  path.network_us_per_byte = 0;  // the bytes cross between the two parts
  return path;
}

CostModel::Walked CostModel::WalkSteps(SlotUse use, const Rates& rates, double bytes) const {
  const std::size_t steps = graph_.nodes.size() - 1;
  Walked walked{
      graph_, slowdown_, {}, {}, std::vector<double>(steps), std::vector<double>(steps), std::vector<int>(steps, -1)};
  std::vector<double> step_us;
  for (const auto& work : graph_.works) {
    walked.step_paths.push_back(StepPath(work, use, rates));
    step_us.push_back(walked.step_paths.back().Microseconds(rates, bytes));
  }
  std::vector<double> way_us;
  for (const auto& way : graph_.ways) {
    walked.way_paths.push_back(WayPath(way, use.protocol));
    way_us.push_back(walked.way_paths.back().Microseconds(rates, bytes));
  }
  for (std::size_t i = 0; i < steps; ++i) {
    const auto& node = graph_.nodes[i];
    for (int w = node.first_wait; w < graph_.nodes[i + 1].first_wait; ++w) {
      const auto& wait = graph_.waits[w];
      const double ready = walked.end[wait.node] + (wait.way == -1 ? 0 : way_us[wait.way]);
      if (ready <= walked.begin[i]) continue;
      walked.begin[i] = ready;
      walked.last_wait[i] = w;
    }
    walked.end[i] = walked.begin[i] + slowdown_[node.member] * step_us[node.work];
  }
  return walked;
}

// Adds the longest paths of a chunk of `bytes`.
void CostModel::Walk(SlotUse use, const Rates& rates, double bytes, Paths& paths) const {
  const Walked walked = WalkSteps(use, rates, bytes);
  const int steps = walked.steps();
  if (steps == 0) return;
  const auto last = static_cast<int>(std::max_element(walked.end.begin(), walked.end.end()) - walked.end.begin());
  paths.first.push_back(walked.PathTo(last));
  if (const auto around = walked.AroundNetwork(last)) paths.around_network.push_back(*around);

  // A GPU's lane has an executor of its own; a host's rank has one for all its lanes.
  const bool by_lane = machine_.costs().cores == 0;
  const auto executor = [by_lane](const StepGraph::Node& node) { return by_lane ? node.lane : node.member; };
  std::vector<double> busy(by_lane ? static_cast<std::size_t>(graph_.lanes) : slowdown_.size());
  std::vector<int> lane_first(static_cast<std::size_t>(graph_.lanes), -1);
  std::vector<int> lane_last(static_cast<std::size_t>(graph_.lanes), -1);
  for (int i = 0; i < steps; ++i) {
    const auto& node = graph_.nodes[i];
    busy[executor(node)] += walked.end[i] - walked.begin[i];
    if (lane_first[node.lane] == -1) lane_first[node.lane] = i;
    lane_last[node.lane] = i;
  }
  const auto busiest = static_cast<int>(std::max_element(busy.begin(), busy.end()) - busy.begin());
  Path all;
  for (int i = 0; i < steps; ++i) {
    if (executor(graph_.nodes[i]) == busiest) walked.AddStep(i, all);
  }
  paths.further.push_back(all);
  if (!by_lane) paths.first.push_back(all);

  int longest = -1;
  const auto span = [&](int lane) { return walked.end[lane_last[lane]] - walked.begin[lane_first[lane]]; };
  for (int lane = 0; lane < graph_.lanes; ++lane) {
    if (lane_first[lane] != -1 && (longest == -1 || span(lane) > span(longest))) longest = lane;
  }
  Path lane = walked.PathTo(lane_last[longest]);
  lane.Add(walked.PathTo(lane_first[longest]), -1);
  walked.AddStep(lane_first[longest], lane);
  paths.further.push_back(lane);
}

// For chunks of `bytes`.
CostModel::Rates CostModel::RatesAt(SlotUse use, double bytes, const Load& load) const {
  const int rings = use.cma ? graph_.rings_beside_fetches : graph_.rings;
  const double held = rings * schedule::SlotDepth(use.protocol) + (use.cma ? fetched_ : 0);
  const WorkingSet set{static_cast<double>(load.footprint),
                       held * bytes * load.channels * static_cast<double>(machine_.ranks_of_fullest_node())};
  // The kernel stores what it fetches for a rank through the caches.
  const MoveRates rates = machine_.RatesOf(set, bytes, load.streamed && !use.cma);
  return {UsPerByte(rates.memory), UsPerByte(rates.slot_read), UsPerByte(rates.slot_write),
          use.low_precision ? UsPerByte(machine_.costs().low_precision_bandwidth) : 0};
}

// Which paths are the longest depends on how far buffers exceed the caches, so they are found for the smallest buffers
// (a chunk of every block) and for endless ones.
const CostModel::Paths& CostModel::PathsOf(SlotUse use, std::size_t grid_point) const {
  const auto [found, fresh] = paths_.try_emplace({use, grid_point});
  if (!fresh) return found->second;
  const double bytes = kGrid[grid_point];
  const auto least = static_cast<std::size_t>(bytes * blocks_);
  for (const std::size_t footprint : {least, std::numeric_limits<std::size_t>::max()}) {
    Load load;
    load.footprint = footprint;
    Walk(use, RatesAt(use, bytes, load), bytes, found->second);
    if (bytes == 0) break;  // no byte is touched
  }
  return found->second;
}

CostModel::Crossing CostModel::BusiestLink(ring::Protocol protocol, int channels) const {
  const auto [found, fresh] = busiest_link_.try_emplace({protocol, channels});
  if (!fresh) return found->second;
  Crossing busiest;
  for (const auto& [resource, load] : traffic_.Over(protocol, channels)) {
    const double us_per_byte = UsPerByte(machine_.resource(resource).bandwidth);
    busiest.all = std::max(busiest.all, load.all * us_per_byte);
    busiest.network = std::max(busiest.network, load.network * us_per_byte);
  }
  busiest.network_sharing = traffic_.NetworkSharing(channels);
  return found->second = busiest;
}

double CostModel::Microseconds(const Load& load) const {
  const Costs& costs = machine_.costs();
  const double share = static_cast<double>(load.block_bytes) / (load.channels * unit_.channels);
  const double bytes = std::min(share, static_cast<double>(load.config.chunk_bytes));
  const double chunks = bytes > 0 ? std::max(1.0, share / bytes) : 1;
  const SlotUse use{load.config.protocol, load.config.cma, load.low_precision};
  const Rates rates = RatesAt(use, bytes, load);
  std::size_t above = 1;
  while (above + 1 < kGrid.size() && bytes > kGrid[above]) ++above;
  // The channels' parts cross the links together.
  const Crossing link = BusiestLink(load.config.protocol, load.channels);
  const double crossing = bytes * load.channels;
  double first = 0;
  double further = 0;
  for (const std::size_t grid_point : {above - 1, above}) {
    const Paths& paths = PathsOf(use, grid_point);
    for (const auto& path : paths.first) first = std::max(first, path.Microseconds(rates, bytes, link.network_sharing));
    for (const auto& path : paths.around_network) {
      first = std::max(first, path.Microseconds(rates, bytes) + crossing * link.network);
    }
    for (const auto& path : paths.further) further = std::max(further, path.Microseconds(rates, bytes));
  }
  const double shared = std::max(crossing * link.all, load.channels * proxy_us_);
  // A rank fills all free slots, then lets the other ranks of its core empty them.
  const double turns = turn_us_ / schedule::SlotDepth(load.config.protocol);
  const double beginning = costs.operation_us + (load.channels * unit_.channels - 1) * costs.channel_skew_us +
                           (load.channels > 1 ? costs.helpers_us : 0);
  // The memory that slots refer to must stay as it is until the last reader has said that it has its copy.
  const double until_fetched = load.config.cma ? turn_us_ + latency_within_node_ : 0;
  return beginning * machine_.ranks_per_core() + std::max(first, shared) + until_fetched +
         (chunks - 1) * std::max(further + turns, shared);
}

}  // namespace tutti::cost_model
