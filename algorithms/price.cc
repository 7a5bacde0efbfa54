#include "algorithms/price.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "algorithms/steps.h"
#include "transports/layout.h"

namespace tutti {
namespace {

// 1 GB/s moves 1,000 bytes in a microsecond.
constexpr double UsPerByte(double bandwidth) { return bandwidth > 0 ? 1 / (bandwidth * 1e3) : 0; }

// The duration of a chunk is a maximum of straight lines in its bytes, so it lies below what these points give, and
// hardly: between them the longest way seldom changes.
constexpr std::array<double, 5> kSampledBytes = {0, 4096, 65536, 1 << 20, 16 << 20};
// Fewer steps than this are walked every time, which is exact.
constexpr std::size_t kFewNodes = 512;

// Slots of a connection, by wire (slot.h, layout.h).
constexpr std::array<double, kWires> kSlotDepth = {kLineShape.depth, kInlineShape.depth, kBulkDepth};

bool IsSlot(const Operand& operand) {
  return operand.place == Place::from || operand.place == Place::to || operand.place == Place::post;
}

double NarrowestUsPerByte(const Machine& machine, const Route& route) {
  double us = 0;
  for (const int resource : route.resources) us = std::max(us, UsPerByte(machine.resource(resource).bandwidth));
  return us;
}

// Ranks per core of a node; 1 where every lane has an executor of its own.
double RanksPerCore(const Machine& machine) {
  if (machine.costs().cores == 0) return 1;
  std::size_t most = 0;
  for (const auto& ranks : machine.arrangement().ranks_on) most = std::max(most, ranks.size());
  return std::max(1.0, static_cast<double>(most) / machine.costs().cores);
}

}  // namespace

// Finds an order in which the steps of one chunk can run, and what each waits for.
class Price::Builder {
 public:
  Builder(Price& price, const Ensemble& ensemble)
      : price_(price), ensemble_(ensemble), fills_(ensemble.members().size()) {}

  void Build() {
    const auto& members = ensemble_.members();
    std::vector<Cursor> cursors;
    for (std::size_t m = 0; m < members.size(); ++m) {
      for (std::size_t c = 0; c < members[m].channels.size(); ++c) {
        const int first = static_cast<int>(cursors.size());
        const auto& lanes = members[m].channels[c].lanes;
        for (const auto& lane : lanes) {
          cursors.push_back({static_cast<int>(m), static_cast<int>(c), first, &lane.steps, {}});
        }
      }
    }
    price_.lanes_ = static_cast<int>(cursors.size());
    done_.resize(cursors.size());
    // Steps whose peer's slot never comes in this order (stand-ins are not perfect) go without waiting for it.
    for (const bool patient : {true, false}) {
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t i = 0; i < cursors.size(); ++i) moved |= Advance(cursors, i, patient);
      }
    }
    for (const auto& [key, slots] : sends_) price_.sends_.push_back({key.first, key.second, slots});
  }

 private:
  struct Cursor {
    int member;
    int channel;
    int first_of_channel;  // the channel's lane 0
    const std::vector<Step>* steps;
    std::map<std::tuple<Place, int, int>, int> emptied;  // by connection and peer: slots read so far
  };

  bool Advance(std::vector<Cursor>& cursors, std::size_t index, bool patient) {
    Cursor& cursor = cursors[index];
    bool moved = false;
    while (done_[index].size() < cursor.steps->size()) {
      const Step& step = (*cursor.steps)[done_[index].size()];
      if (!FindWaits(cursor, index, step, patient)) break;
      Put(cursor, index, step);
      moved = true;
    }
    return moved;
  }

  // Fills found_; false: something has not happened yet.
  bool FindWaits(const Cursor& cursor, std::size_t index, const Step& step, bool patient) {
    found_.clear();
    if (!done_[index].empty()) found_.push_back({done_[index].back()});
    for (const auto& after : step.after) {
      const auto& other = done_[static_cast<std::size_t>(cursor.first_of_channel + after.lane)];
      if (static_cast<int>(other.size()) <= after.step) {
        if (patient) return false;
        continue;
      }
      found_.push_back({other[after.step]});
    }
    for (const auto& read : step.reads) {
      if (!IsSlot(read)) continue;
      const auto [stand_in, seen_as] = ensemble_.For(cursor.member, read.peer);
      const auto& fills = fills_[stand_in];
      const auto filled = fills.find({cursor.channel, read.connection, read.place == Place::post ? -1 : seen_as});
      const auto emptied = cursor.emptied.find({read.place, read.connection, read.peer});
      const std::size_t number = emptied == cursor.emptied.end() ? 0 : emptied->second;
      if (filled == fills.end() || filled->second.size() <= number) {
        if (patient) return false;
        continue;
      }
      found_.push_back({filled->second[number], WayFrom(cursor.member, read.peer)});
    }
    return true;
  }

  void Put(Cursor& cursor, std::size_t index, const Step& step) {
    const int number = static_cast<int>(price_.nodes_.size());
    Node node{cursor.member, static_cast<int>(index), static_cast<int>(price_.waits_.size()), 0, 0, 0, 0};
    price_.waits_.insert(price_.waits_.end(), found_.begin(), found_.end());
    for (const auto& read : step.reads) {
      ++(IsSlot(read) ? node.slot_reads : node.memory_operands);
      if (IsSlot(read)) ++cursor.emptied[{read.place, read.connection, read.peer}];
    }
    for (const auto& write : step.writes) {
      ++(IsSlot(write) ? node.slot_writes : node.memory_operands);
      if (write.place == Place::to) {
        const Route& route = RouteTo(cursor.member, write.peer);
        if (!route.network) node.us_per_byte = std::max(node.us_per_byte, NarrowestUsPerByte(price_.machine_, route));
        ++sends_[{cursor.member, write.peer}];
        fills_[cursor.member][{cursor.channel, write.connection, write.peer}].push_back(number);
      } else if (write.place == Place::post) {
        fills_[cursor.member][{cursor.channel, 0, -1}].push_back(number);
      }
    }
    price_.nodes_.push_back(node);
    done_[index].push_back(number);
  }

  int RankOf(int member) const { return ensemble_.members()[member].rank; }

  const Route& RouteTo(int member, int peer) {
    const auto [found, fresh] = routes_.try_emplace({RankOf(member), peer});
    if (fresh) found->second = price_.machine_.RouteOf(RankOf(member), peer, 0);
    return found->second;
  }

  int WayFrom(int member, int peer) {
    const auto [found, fresh] = ways_of_pairs_.try_emplace({peer, RankOf(member)}, 0);
    if (!fresh) return found->second;
    const Route route = price_.machine_.RouteOf(peer, RankOf(member), 0);
    const Way way{route.latency, route.network ? NarrowestUsPerByte(price_.machine_, route) : 0};
    const auto [number, is_new] = ways_.try_emplace(way, static_cast<int>(price_.ways_.size()));
    if (is_new) price_.ways_.push_back(way);
    return found->second = number->second;
  }

  Price& price_;
  const Ensemble& ensemble_;
  std::vector<Wait> found_;
  std::vector<std::vector<int>> done_;  // by lane: the nodes of its steps so far
  // By member, then channel, connection and reader (-1: all).
  std::vector<std::map<std::tuple<int, int, int>, std::vector<int>>> fills_;
  std::map<std::pair<int, int>, int> sends_;  // by member and peer: slots
  std::map<std::pair<int, int>, Route> routes_;
  std::map<std::pair<int, int>, int> ways_of_pairs_;
  std::map<Way, int> ways_;
};

Price::Price(const Machine& machine, const Ensemble& ensemble)
    : machine_(machine),
      unit_channels_(static_cast<int>(ensemble.members().front().channels.size())),
      pieces_(ensemble.members().front().pieces()) {
  Builder(*this, ensemble).Build();
  FindShares(ensemble);
}

// A core divides itself among its ranks by their work: with equal work each takes as much longer as there are ranks;
// one that works while the others poll does not.
void Price::FindShares(const Ensemble& ensemble) {
  const auto members = ensemble.members().size();
  std::vector<double> work(members);
  std::vector<int> fills(members);
  for (const auto& node : nodes_) {
    work[node.member] += node.memory_operands + node.slot_reads + node.slot_writes;
  }
  for (const auto& send : sends_) fills[send.member] += send.slots;
  slots_in_flight_ = *std::max_element(fills.begin(), fills.end());
  slowdown_.assign(members, RanksPerCore(machine_));
  turn_us_ = RanksPerCore(machine_) > 1 ? RanksPerCore(machine_) * machine_.costs().yield_us : 0;
  if (machine_.costs().cores == 0 || !ensemble.complete() || RanksPerCore(machine_) <= 1) return;
  for (const auto& ranks : machine_.arrangement().ranks_on) {
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

Price::Chunk Price::Walk(const Rates& rates, double bytes) const {
  const auto wire = static_cast<std::size_t>(rates.wire);
  const double efficiency = machine_.costs().wire_efficiency[wire];
  std::vector<double> end(nodes_.size());
  std::vector<double> lane_begin(lanes_, -1);
  std::vector<double> lane_end(lanes_);
  // A GPU's lane has an executor of its own, a host's rank one for all its lanes.
  const bool by_lane = machine_.costs().cores == 0;
  std::vector<double> busy(by_lane ? lanes_ : static_cast<int>(slowdown_.size()));
  Chunk chunk;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    double begin = 0;
    const std::size_t waits_end = i + 1 < nodes_.size() ? nodes_[i + 1].first_wait : waits_.size();
    for (std::size_t w = node.first_wait; w < waits_end; ++w) {
      double ready = end[waits_[w].node];
      if (waits_[w].way >= 0) {
        const Way& way = ways_[waits_[w].way];
        ready += way.latency[wire] + turn_us_ + bytes * way.us_per_byte / efficiency;
      }
      begin = std::max(begin, ready);
    }
    const double moving =
        bytes * (node.memory_operands * rates.memory_us_per_byte + node.slot_reads * rates.slot_read_us_per_byte +
                 node.slot_writes * rates.slot_write_us_per_byte);
    const double overhead =
        machine_.costs().step_us + machine_.costs().slot_us[wire] * (node.slot_reads + node.slot_writes);
    const double duration =
        slowdown_[node.member] * (overhead + std::max(moving, bytes * node.us_per_byte / efficiency));
    end[i] = begin + duration;
    if (lane_begin[node.lane] < 0) lane_begin[node.lane] = begin;
    lane_end[node.lane] = end[i];
    busy[by_lane ? node.lane : node.member] += duration;
    chunk.first = std::max(chunk.first, end[i]);
  }
  for (int lane = 0; lane < lanes_; ++lane) chunk.further = std::max(chunk.further, lane_end[lane] - lane_begin[lane]);
  for (const double each : busy) chunk.further = std::max(chunk.further, each);
  // Ranks of one core fill the slots that there are, then let the others empty them.
  chunk.further += turn_us_ / kSlotDepth[wire];
  if (!by_lane) chunk.first = std::max(chunk.first, *std::max_element(busy.begin(), busy.end()));
  return chunk;
}

Price::Chunk Price::ChunkOf(const Rates& rates, double bytes) const {
  if (nodes_.size() <= kFewNodes) return Walk(rates, bytes);
  auto& samples = samples_[rates];
  if (samples.empty()) {
    for (const double sampled : kSampledBytes) samples.push_back(Walk(rates, sampled));
  }
  std::size_t i = 1;
  while (i + 1 < kSampledBytes.size() && bytes > kSampledBytes[i]) ++i;
  const double part = (bytes - kSampledBytes[i - 1]) / (kSampledBytes[i] - kSampledBytes[i - 1]);
  return {std::lerp(samples[i - 1].first, samples[i].first, part),
          std::lerp(samples[i - 1].further, samples[i].further, part)};
}

// Microseconds for a byte of every block, were there one channel.
double Price::BusiestLink(Wire wire, int channels) const {
  const auto [found, fresh] = busiest_link_.try_emplace({wire, channels}, 0);
  if (!fresh) return found->second;
  std::map<int, double> load;
  // Members stand for the ranks of every node alike, so what they do to another node's links is done to theirs.
  const bool folded = static_cast<int>(slowdown_.size()) < machine_.nranks();
  const auto home = [&](int resource) { return folded ? machine_.LocalNumber(resource) : resource; };
  for (const auto& send : sends_) {
    for (int channel = 0; channel < channels; ++channel) {
      for (const int resource : machine_.RouteOf(send.member, send.peer, channel).resources) {
        load[home(resource)] += static_cast<double>(send.slots) / channels;
      }
    }
  }
  const double efficiency = machine_.costs().wire_efficiency[static_cast<std::size_t>(wire)];
  double busiest = 0;
  for (const auto& [resource, slots] : load) {
    busiest = std::max(busiest, slots * UsPerByte(machine_.resource(resource).bandwidth) / efficiency);
  }
  return found->second = busiest;
}

double Price::Microseconds(const Load& load) const {
  const Costs& costs = machine_.costs();
  const double share = static_cast<double>(load.block_bytes) / (load.channels * unit_channels_);
  const double bytes = std::min(share, static_cast<double>(load.shape.chunk_bytes));
  const double chunks = bytes > 0 ? std::max(1.0, share / bytes) : 1;
  const auto slots = static_cast<std::size_t>(bytes * slots_in_flight_);
  const double slot = At(costs.executor_bandwidth, slots);
  const double crossing_in =
      costs.crossing_bandwidth.empty() ? slot : At(costs.crossing_bandwidth, static_cast<std::size_t>(bytes));
  const Rates rates{load.shape.wire, UsPerByte(At(costs.executor_bandwidth, load.footprint)), UsPerByte(crossing_in),
                    UsPerByte(slot)};
  const Chunk chunk = ChunkOf(rates, bytes);
  // The channels' parts cross the links together.
  const double crossing = bytes * load.channels * BusiestLink(load.shape.wire, load.channels);
  return costs.operation_us * RanksPerCore(machine_) + std::max(chunk.first, crossing) +
         (chunks - 1) * std::max(chunk.further, crossing);
}

}  // namespace tutti
