#include "selection/simulator/flat_schedules.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>

#include "algorithms/schedule/binding.h"
#include "algorithms/schedule/ways.h"
#include "base/error.h"
#include "selection/cost_model/machine_constants.h"

namespace tutti::simulator {

// A connection as its writer names it. A post counts once for each reader.
struct ConnectionName {
  int from;
  int to;
  int channel;
  int number;  // as in schedule::Way
  friend bool operator==(const ConnectionName&, const ConnectionName&) = default;
};
// ConnectionName::number of the links that bring a sum to its reader. No slot has it.
constexpr int kSumWay = schedule::kMulticasts - 1;

struct ConnectionNameHash {
  std::size_t operator()(const ConnectionName& name) const {
    // Ranks are below 2^16 (Operand::peer) and channels few.
    return ring::Mix(static_cast<std::uint64_t>(name.from) << 40 | static_cast<std::uint64_t>(name.to) << 24 |
                     static_cast<std::uint64_t>(name.channel) << 8 | static_cast<std::uint64_t>(name.number - kSumWay));
  }
};

namespace {

// Where a rank's schedule fills its connection to `to` for the first time.
struct Position {
  std::size_t lane, step, write;
};
std::optional<Position> PositionOf(const schedule::Channel& channel, const schedule::Operand& operand) {
  for (std::size_t l = 0; l < channel.lanes.size(); ++l) {
    const auto& steps = channel.lanes[l].steps;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const auto found = std::find(steps[s].writes.begin(), steps[s].writes.end(), operand);
      if (found != steps[s].writes.end()) {
        return Position{l, s, static_cast<std::size_t>(found - steps[s].writes.begin())};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

NodeClasses EveryNodeItself(int nodes) {
  NodeClasses node_classes;
  node_classes.class_of.resize(static_cast<std::size_t>(nodes));
  std::iota(node_classes.class_of.begin(), node_classes.class_of.end(), 0);
  node_classes.node_of = node_classes.class_of;
  return node_classes;
}

class Flattener {
 public:
  Flattener(FlatSchedules& flat, const cost_model::Machine& machine, const FlatSchedules::Source& source,
            const schedule::ProtocolConfig& config, const NodeClasses& node_classes)
      : flat_(flat),
        machine_(machine),
        rank_layout_(machine.rank_layout()),
        source_(source),
        protocol_(config.protocol),
        node_classes_(node_classes),
        place_(rank_layout_.node_of.size()) {
    for (const auto& ranks : rank_layout_.ranks_on) {
      for (std::size_t i = 0; i < ranks.size(); ++i) place_[ranks[i]] = i;
    }
  }

  void Run() {
    for (const int node : node_classes_.node_of) {
      for (const int rank : rank_layout_.ranks_on[node]) Add(source_(rank));
    }
    if (machine_.one_memory()) AddMemory();
    for (const auto& [writer, reads] : strangers_) Resolve(writer, reads);
    for (std::size_t e = 0; e < flat_.edges_.size(); ++e) Join(static_cast<int>(e));
  }

 private:
  // A read whose writer is simulated as another rank.
  struct Read {
    std::uint32_t edge;
    ConnectionName name;
  };

  int StandInFor(int rank) const {
    return rank_layout_.ranks_on[node_classes_.StandInFor(rank_layout_.node_of[rank])][place_[rank]];
  }

  // A flow of each lane: its steps' accesses.
  void AddMemory() {
    for (std::uint32_t number = 0; number < flat_.lanes_.size(); ++number) {
      const FlatLane& lane = flat_.lanes_[number];
      FlatConnection memory{lane.rank, lane.rank, lane.channel, number};
      memory.route = machine_.RouteOf(lane.rank, lane.rank, lane.channel).resources;
      memory.per_byte = cost_model::SlotsOfAnAccess(one_launch_);
      flat_.connections_.push_back(std::move(memory));
    }
  }

  void Add(const schedule::Schedule& schedule) {
    if (flat_.channels_ == 0) Begin(schedule);
    one_launch_ = schedule.one_launch;
    may_refer_ = schedule.reference_safe;
    for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
      const auto first = static_cast<std::uint32_t>(flat_.lanes_.size());
      const auto& lanes = schedule.channels[c].lanes;
      for (std::size_t l = 0; l < lanes.size(); ++l) {
        FlatLane lane{schedule.rank,
                      static_cast<int>(c),
                      static_cast<int>(l),
                      first,
                      static_cast<std::uint32_t>(lanes.size()),
                      static_cast<std::uint32_t>(flat_.steps_.size()),
                      static_cast<std::uint32_t>(lanes[l].steps.size()),
                      0};
        const auto riding = schedule::RidingSteps(lanes[l].steps);
        for (std::size_t s = 0; s < riding.size(); ++s) {
          AddStep(schedule, lane, lanes[l].steps[s]);
          flat_.steps_.back().may_ride = riding[s];
        }
        flat_.lanes_.push_back(lane);
      }
      for (const schedule::Lane& lane : lanes) {
        for (const schedule::Step& step : lane.steps) {
          for (const schedule::After& after : step.after)
            flat_.lanes_[first + static_cast<std::size_t>(after.lane)].awaited = true;
        }
      }
    }
  }

  void Begin(const schedule::Schedule& schedule) {
    flat_.channels_ = static_cast<int>(schedule.channels.size());
    for (const std::size_t length : flat_.length_) {
      flat_.share_unit_.push_back(flat_.channels_ == 1 ? length
                                                       : schedule::ShareBegin(length, 1, schedule.channels.size()));
    }
  }

  void AddStep(const schedule::Schedule& schedule, FlatLane& lane, const schedule::Step& step) {
    FlatStep flat{.block = step.block, .first = static_cast<std::uint32_t>(flat_.operands_.size())};
    flat.afters = static_cast<std::uint8_t>(step.after.size());
    flat.accesses =
        static_cast<std::uint16_t>(schedule::AccessesOf(step, may_refer_ && schedule::ReferableOf(step) != -1));
    const auto number = static_cast<std::uint32_t>(flat_.lanes_.size());
    for (const schedule::Operand& read : step.reads) {
      ++(schedule::IsSlot(read.kind) ? flat.reads : flat.memory);
      schedule::EachWayRead(schedule, read, [&](const schedule::Way& way) {
        flat_.operands_.push_back(EdgeOf({way.writer, way.reader, lane.channel, way.number}, number));
        ++flat.empties;
      });
    }
    for (const schedule::Operand& write : step.writes) {
      ++(schedule::IsSlot(write.kind) ? flat.writes : flat.memory);
      std::set<int> reached;  // nodes, by this slot
      schedule::EachWayWritten(schedule, write, [&](const schedule::Way& way) {
        const std::uint32_t connection = ConnectionOf({way.writer, way.reader, lane.channel, way.number}, number);
        flat_.operands_.push_back(connection);
        ++flat.fills;
        const bool first = reached.insert(rank_layout_.node_of[way.reader]).second;
        if (Joins(way, first)) flat_.connections_[connection].rides_along = true;
      });
    }
    for (const schedule::Operand& read : step.reads) {
      if (read.kind != schedule::OperandKind::sum) continue;
      flat_.operands_.push_back(ConnectionOf({lane.rank, lane.rank, lane.channel, kSumWay}, number));
      ++flat.sums;
    }
    for (const schedule::After& after : step.after) {
      flat_.operands_.push_back(static_cast<std::uint32_t>(after.lane));
      flat_.operands_.push_back(static_cast<std::uint32_t>(after.step));
    }
    flat_.steps_.push_back(flat);
    const std::size_t share = flat_.ShareOf(step.block, lane.channel);
    const auto chunks = (share + flat_.chunk_bytes_ - 1) / flat_.chunk_bytes_;
    const bool talks = flat.empties + flat.fills > 0;
    lane.chunks = std::max({lane.chunks, static_cast<std::uint32_t>(chunks), flat_.pairwise_ && talks ? 1u : 0u});
  }

  // Whether the slot's bytes cross with those for another reader, or not before they are read. `first`: of its node.
  bool Joins(const schedule::Way& way, bool first) const {
    switch (way.number) {
      case schedule::kContributions: return true;
      case schedule::kMulticasts: return !first;
      // Ranks that share a node's cores share its memory too.
      case schedule::kPosts: return machine_.costs().cores > 0 && !first;
      default: return false;
    }
  }

  cost_model::Route RouteOf(const ConnectionName& name) const {
    if (name.number == kSumWay) return machine_.SumRouteOf(name.to);
    if (name.number == schedule::kMulticasts) return machine_.MulticastRouteOf(name.from);
    return machine_.RouteOf(name.from, name.to, name.channel);
  }

  // The index of the protocol that slots have there.
  std::size_t WireOf(const cost_model::Route& route) const {
    return static_cast<std::size_t>(machine_.costs().On(route.network, protocol_));
  }

  std::uint32_t ConnectionOf(const ConnectionName& name, std::uint32_t lane) {
    const auto [found, added] = connections_.emplace(name, flat_.connections_.size());
    if (added) {
      const cost_model::Route route = RouteOf(name);
      FlatConnection connection{name.from, name.to, name.channel, lane};
      connection.network = route.network;
      connection.rides_along = machine_.one_memory();
      const bool in_switch = name.number == kSumWay || name.number == schedule::kMulticasts;
      const cost_model::Costs& costs = machine_.costs();
      const std::size_t wire = WireOf(route);
      connection.per_byte = 1 / (in_switch ? costs.in_switch_efficiency : costs.protocol_efficiency[wire]);
      if (name.number == kSumWay) connection.read_latency = FromMicroseconds(route.latency[wire]);
      const int node = rank_layout_.node_of[name.from];
      for (const int resource : route.resources) {
        if (machine_.NodeOfResource(resource) == node) connection.route.push_back(resource);
      }
      flat_.connections_.push_back(std::move(connection));
    }
    return found->second;
  }

  std::uint32_t EdgeOf(const ConnectionName& name, std::uint32_t lane) {
    const auto [found, added] = edges_.emplace(name, flat_.edges_.size());
    if (added) {
      names_.push_back(name);
      const cost_model::Route route = machine_.RouteOf(name.from, name.to, name.channel);
      flat_.edges_.push_back({.lane = lane, .latency = FromMicroseconds(route.latency[WireOf(route)])});
      if (StandInFor(name.from) != name.from) strangers_[name.from].push_back({found->second, name});
    }
    return found->second;
  }

  // Connects reads from a rank that is simulated as another to what the stand-in fills at the same position.
  void Resolve(int writer, const std::vector<Read>& reads) {
    const schedule::Schedule theirs = source_(writer);
    const schedule::Schedule ours = source_(StandInFor(writer));
    for (const Read& read : reads) flat_.edges_[read.edge].connection = Counterpart(theirs, ours, read.name);
  }

  int Counterpart(const schedule::Schedule& theirs, const schedule::Schedule& ours, const ConnectionName& name) const {
    const auto& channel = theirs.channels.at(name.channel);
    if (name.number >= 0) {
      if (const auto position = PositionOf(channel, schedule::By(name.number, schedule::To(name.to)))) {
        const auto& lanes = ours.channels.at(name.channel).lanes;
        if (position->lane < lanes.size() && position->step < lanes[position->lane].steps.size()) {
          const auto& writes = lanes[position->lane].steps[position->step].writes;
          if (position->write < writes.size() && writes[position->write].kind == schedule::OperandKind::to) {
            return Find({ours.rank, writes[position->write].peer, name.channel, writes[position->write].connection});
          }
        }
      }
    }
    Throw(tuttiInternalError, "rank {} cannot stand for rank {}: their schedules differ where rank {} is written to",
          ours.rank, theirs.rank, name.to);
  }

  int Find(const ConnectionName& name) const {
    const auto found = connections_.find(name);
    if (found == connections_.end()) {
      Throw(tuttiInvalidArgument, "rank {} reads from rank {} on channel {}, which never writes to it", name.to,
            name.from, name.channel);
    }
    return static_cast<int>(found->second);
  }

  // Adds an edge to its connection, whose bytes also cross the resources that lead into the reader's node.
  void Join(int index) {
    FlatEdge& edge = flat_.edges_[index];
    const ConnectionName& name = names_[index];
    if (edge.connection == -1) edge.connection = Find(name);
    FlatConnection& connection = flat_.connections_[edge.connection];
    edge.next = connection.edge;
    connection.edge = index;
    const int node = rank_layout_.node_of[name.to];
    if (node == rank_layout_.node_of[name.from]) return;
    for (const int resource : machine_.RouteOf(name.from, name.to, name.channel).resources) {
      if (machine_.NodeOfResource(resource) == node) connection.route.push_back(resource);
    }
  }

  FlatSchedules& flat_;
  const cost_model::Machine& machine_;
  const schedule::RankLayout& rank_layout_;
  const FlatSchedules::Source& source_;
  const ring::Protocol protocol_;
  const NodeClasses& node_classes_;
  std::vector<std::size_t> place_;  // of a rank on its node
  std::unordered_map<ConnectionName, std::uint32_t, ConnectionNameHash> connections_, edges_;
  std::vector<ConnectionName> names_;           // by edge
  std::map<int, std::vector<Read>> strangers_;  // by writer
  bool one_launch_ = false, may_refer_ = false;
};

FlatSchedules::FlatSchedules(const cost_model::Machine& machine, const Source& source, const schedule::Extents& extents,
                             const schedule::ProtocolConfig& config, const NodeClasses& node_classes)
    : length_(extents.length), chunk_bytes_(config.chunk_bytes), pairwise_(extents.pairwise) {
  if (chunk_bytes_ == 0) Throw(tuttiInvalidArgument, "the chunk has 0 bytes; at least 1 is needed");
  Flattener(*this, machine, source, config, node_classes).Run();
}

}  // namespace tutti::simulator
