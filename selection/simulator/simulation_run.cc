#include "selection/simulator/simulation_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"

namespace tutti::simulator {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPicosecondsPerByteAtOneGB = 1e3;

std::vector<double> Bandwidths(const cost_model::Machine& machine) {
  std::vector<double> bandwidths;
  bandwidths.reserve(static_cast<std::size_t>(machine.resources()));
  for (int i = 0; i < machine.resources(); ++i) bandwidths.push_back(machine.resource(i).bandwidth);
  return bandwidths;
}

// The fullest node's, on the assumption that each of its ranks fills as many rings as the rank with the most.
cost_model::WorkingSet WorkingSetOf(const FlatSchedules& schedules, const SimulationInput& input, std::uint32_t depth) {
  std::map<int, std::size_t> rings;  // by rank
  std::size_t most = 0;
  for (const FlatConnection& connection : schedules.connections()) {
    if (!connection.rides_along) most = std::max(most, ++rings[connection.from]);
  }
  std::int64_t chunk = 0;
  for (const FlatLane& lane : schedules.lanes()) {
    for (std::uint32_t step = 0; step < lane.steps; ++step) {
      chunk = std::max(chunk, schedules.ChunkBytes(lane, schedules.step(lane, step), 0));
    }
  }
  return {input.footprint_bytes,
          static_cast<double>(input.machine.ranks_of_fullest_node() * most * depth) * static_cast<double>(chunk)};
}

// The number of channels of the rank that has the most.
int ChannelsOf(const FlatSchedules& schedules) {
  int channels = 1;
  for (const FlatLane& lane : schedules.lanes()) channels = std::max(channels, lane.channel + 1);
  return channels;
}

}  // namespace

SimulationRun::SimulationRun(const FlatSchedules& schedules, const SimulationInput& input)
    : schedules_(schedules),
      input_(input),
      channels_(ChannelsOf(schedules)),
      threads_(std::min(input.threads, channels_)),
      depth_(static_cast<std::uint32_t>(input.depth != 0 ? input.depth : schedule::SlotDepth(input.config.protocol))),
      network_depth_(static_cast<std::uint32_t>(
          input.depth != 0 ? input.depth : schedule::SlotDepth(input.machine.costs().On(true, input.config.protocol)))),
      working_set_(WorkingSetOf(schedules, input, depth_)),
      step_time_(FromMicroseconds(input.machine.costs().step_us)),
      yield_time_(FromMicroseconds(input.machine.costs().yield_us)),
      message_time_(FromMicroseconds(input.machine.costs().message_us)),
      flows_(Bandwidths(input.machine)),
      now_(
          FromMicroseconds(input.machine.costs().operation_us + (threads_ > 1 ? input.machine.costs().helpers_us : 0))),
      lanes_(schedules.lanes().size()),
      connections_(schedules.connections().size()),
      edges_(schedules.edges().size()) {
  bool network = false;
  for (const FlatConnection& connection : schedules_.connections()) {
    flows_.Add(connection.route);
    network |= connection.network;
  }
  if (network) {
    waiting_.resize(connections_.size() * network_depth_);
    riding_.resize(waiting_.size());
    if (input.machine.costs().cores == 0) proxies_.resize(static_cast<std::size_t>(input.machine.nranks()));
  }
  for (Lane& lane : lanes_) lane.busy = input.machine.costs().cores == 0;  // until it begins
  if (input.machine.costs().cores > 0) GiveOutCores();
  last_ = now_;
}

void SimulationRun::GiveOutCores() {
  const schedule::RankLayout& rank_layout = input_.machine.rank_layout();
  const auto cores = static_cast<std::size_t>(input_.machine.costs().cores);
  std::map<std::pair<int, std::size_t>, std::uint32_t> numbers;  // by node and core
  for (std::uint32_t first = 0; first < lanes_.size();) {
    const int rank = Flat(first).rank;
    const int thread = ThreadOf(first);
    std::uint32_t end = first;
    while (end < lanes_.size() && Flat(end).rank == rank && ThreadOf(end) == thread) ++end;
    const int node = rank_layout.node_of[rank];
    const auto& ranks = rank_layout.ranks_on[node];
    const auto place = static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
    const std::size_t core = (place * static_cast<std::size_t>(threads_) + static_cast<std::size_t>(thread)) % cores;
    const auto number = numbers.emplace(std::pair(node, core), cores_.size()).first->second;
    if (number == cores_.size()) cores_.emplace_back();
    cores_[number].ranks.push_back({first, end - first});
    for (; first < end; ++first) lanes_[first].core = static_cast<std::int32_t>(number);
  }
  // The ranks of a core begin the operation one after the other.
  std::size_t most = 1;
  for (const Core& core : cores_) most = std::max(most, core.ranks.size());
  now_ *= static_cast<Time>(most);
  for (Core& core : cores_) core.since = now_;
}

SimulationResult SimulationRun::Run() {
  const Time skew = FromMicroseconds(input_.machine.costs().channel_skew_us);
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    events_.Push(now_ + Flat(lane).channel * skew, What::lane_begins, lane);
  }
  while (!flows_.settled() || !events_.empty()) {
    if (events_.empty() || events_.Next() > now_) {
      if (!flows_.settled()) {
        flows_.Settle(now_);
        for (const int flow : flows_.changed()) {
          events_.Push(flows_.EndOf(flow), What::flow_ends, static_cast<std::uint32_t>(flow), flows_.VersionOf(flow));
        }
        continue;
      }
      now_ = events_.Next();
    }
    Handle(events_.Pop());
  }
  CheckFinished();
  SimulationResult result{.duration_us = ToMicroseconds(last_), .steps = steps_};
  for (int i = 0; i < input_.machine.resources(); ++i) result.bytes_over.push_back(flows_.BytesOver(i));
  return result;
}

void SimulationRun::Handle(const EventQueue<What>::Event& event) {
  const std::uint32_t index = event.index;
  switch (event.What()) {
    case What::step_ends: EndStep(index); break;
    case What::flow_ends:
      if (event.version == flows_.VersionOf(static_cast<int>(index)) % EventQueue<What>::kVersions) EndFlow(index);
      break;
    case What::slot_arrives:
      ++edges_[index].arrived;
      Wake(schedules_.edges()[index].lane);
      break;
    case What::slot_is_free:
      ++edges_[index].free_again;
      Wake(schedules_.connections()[schedules_.edges()[index].connection].lane);
      break;
    case What::slot_is_posted: Post(index); break;
    case What::lane_begins:
      lanes_[index].busy = false;
      Wake(index);
      break;
    case What::turn_begins:
      if (event.version == cores_[index].version % EventQueue<What>::kVersions) TakeTurn(index);
      break;
  }
}

// Moves the lane on to the next step that has something to do; false at its end.
bool SimulationRun::FindStep(std::uint32_t number) {
  Lane& lane = lanes_[number];
  const FlatLane& flat = Flat(number);
  while (lane.chunk < flat.chunks) {
    for (; lane.step < flat.steps; ++lane.step) {
      if (schedules_.ChunkBytes(flat, schedules_.step(flat, lane.step), lane.chunk) >= 0) return true;
    }
    lane.step = 0;
    ++lane.chunk;
  }
  return false;
}

bool SimulationRun::Ready(std::uint32_t number) {
  if (!FindStep(number)) return false;
  const Lane& lane = lanes_[number];
  const FlatLane& flat = Flat(number);
  const FlatStep& step = schedules_.step(flat, lane.step);
  for (const std::uint32_t e : schedules_.Empties(step)) {
    if (edges_[e].arrived == edges_[e].emptied) return false;
  }
  for (const std::uint32_t c : schedules_.Fills(step)) {
    for (int e = schedules_.connections()[c].edge; e != -1; e = schedules_.edges()[e].next) {
      const std::uint32_t depth = schedules_.connections()[c].network ? network_depth_ : depth_;
      if (connections_[c].filled - edges_[e].free_again == depth) return false;
    }
  }
  const auto afters = schedules_.Afters(step);
  for (std::size_t i = 0; i < afters.size(); i += 2) {
    // A lane that skips the step has done it once it is past it.
    FindStep(flat.first_lane + afters[i]);
    const Lane& other = lanes_[flat.first_lane + afters[i]];
    if (std::pair(other.chunk, other.step) <= std::pair(lane.chunk, afters[i + 1])) return false;
  }
  return true;
}

void SimulationRun::Wake(std::uint32_t lane) {
  if (lanes_[lane].core != -1) {
    const auto core = static_cast<std::uint32_t>(lanes_[lane].core);
    if (!cores_[core].busy) PlanTurn(core);
  } else if (!lanes_[lane].busy && Ready(lane)) {
    Begin(lane);
  }
}

// How long, in ps, the executor moves data for a step.
double SimulationRun::Moving(const FlatStep& step, std::int64_t bytes) const {
  const auto rates = input_.machine.RatesOf(working_set_, static_cast<double>(bytes), false);
  return static_cast<double>(bytes) * kPicosecondsPerMicrosecond *
         (step.reads * cost_model::UsPerByte(rates.slot_read) + step.writes * cost_model::UsPerByte(rates.slot_write) +
          step.memory * cost_model::UsPerByte(rates.memory));
}

// Returns how long the messages of a step that begins take the rank's thread.
Time SimulationRun::Messaging(const FlatLane& flat, std::uint32_t number, std::uint32_t chunk) {
  if (waiting_.empty() || input_.machine.costs().cores == 0) return 0;
  const FlatStep& step = schedules_.step(flat, number);
  std::int64_t slots = 0, messages = 0;
  bool waited = false;
  for (const std::uint32_t e : schedules_.Empties(step)) {
    const auto c = static_cast<std::size_t>(schedules_.edges()[e].connection);
    if (!schedules_.connections()[c].network) continue;
    waited = true;
    ++slots;
    if (!riding_[c * network_depth_ + edges_[e].emptied % network_depth_]) ++messages;
  }
  const bool rides =
      step.may_ride && !waited && schedules_.ChunkBytes(flat, schedules_.step(flat, number - 1), chunk) >= 0;
  for (const std::uint32_t c : schedules_.Fills(step)) {
    if (!schedules_.connections()[c].network) continue;
    ++slots;
    if (!rides) ++messages;
    riding_[std::size_t{c} * network_depth_ + connections_[c].filled % network_depth_] = rides;
  }
  const auto bytes = static_cast<double>(schedules_.ChunkBytes(flat, step, chunk));
  const double per_byte = cost_model::UsPerByte(input_.machine.costs().message_bandwidth);
  return messages * message_time_ + slots * FromMicroseconds(bytes * per_byte);
}

// REQUIRES: Ready. Local slots start to cross at once, as fast as the executor moves them; the step's own cost follows.
void SimulationRun::Begin(std::uint32_t number) {
  Lane& lane = lanes_[number];
  const FlatLane& flat = Flat(number);
  const FlatStep& step = schedules_.step(flat, lane.step);
  const std::int64_t bytes = schedules_.ChunkBytes(flat, step, lane.chunk);
  const double moving = Moving(step, bytes);
  lane.busy = true;
  lane.began = now_;
  lane.after_crossing = Messaging(flat, lane.step, lane.chunk);
  for (const std::uint32_t c : schedules_.Fills(step)) {
    const FlatConnection& connection = schedules_.connections()[c];
    ++connections_[c].filled;
    if (connection.network || connection.rides_along) continue;
    ++lane.crossing;
    const double crossing = static_cast<double>(bytes) * connection.per_byte;
    StartFlow(c, bytes, moving > 0 ? crossing * kPicosecondsPerByteAtOneGB / moving : kInfinity);
  }
  for (const std::uint32_t c : schedules_.Sums(step)) {
    ++lane.crossing;
    lane.after_crossing = schedules_.connections()[c].read_latency;
    const double crossing = static_cast<double>(bytes) * schedules_.connections()[c].per_byte;
    StartFlow(c, bytes, moving > 0 ? crossing * kPicosecondsPerByteAtOneGB / moving : kInfinity);
  }
  if (input_.machine.one_memory() && step.accesses > 0 && bytes > 0) {
    ++lane.crossing;
    const std::int64_t accessed = bytes * step.accesses;
    const std::uint32_t memory = schedules_.MemoryOf(number);
    const double crossing = static_cast<double>(accessed) * schedules_.connections()[memory].per_byte;
    StartFlow(memory, accessed, moving > 0 ? crossing * kPicosecondsPerByteAtOneGB / moving : kInfinity);
  }
  if (lane.crossing == 0)
    events_.Push(now_ + step_time_ + std::llround(moving) + lane.after_crossing, What::step_ends, number);
}

void SimulationRun::StartFlow(std::uint32_t c, std::int64_t bytes, double peak) {
  connections_[c].began = now_;
  connections_[c].bytes = bytes;
  flows_.Start(static_cast<int>(c), static_cast<double>(bytes) * schedules_.connections()[c].per_byte, peak, now_);
}

void SimulationRun::EndFlow(std::uint32_t c) {
  flows_.End(static_cast<int>(c));
  const FlatConnection& flat = schedules_.connections()[c];
  Connection& connection = connections_[c];
  if (input_.timeline != nullptr && flat.from != flat.to) {
    input_.timeline->flows.push_back({flat.from, flat.to, flat.channel,
                                      static_cast<double>(connection.bytes) * flat.per_byte,
                                      ToMicroseconds(connection.began), ToMicroseconds(now_), flat.route});
  }
  if (!flat.network) {
    Lane& lane = lanes_[flat.lane];
    if (--lane.crossing == 0) events_.Push(now_ + step_time_ + lane.after_crossing, What::step_ends, flat.lane);
    return;
  }
  Deliver(c);
  if (++connection.sent != connection.posted) {
    StartFlow(c, waiting_[std::size_t{c} * network_depth_ + connection.sent % network_depth_], kInfinity);
  }
}

// The slot has crossed: its readers see it a latency later.
void SimulationRun::Deliver(std::uint32_t c) {
  const FlatConnection& connection = schedules_.connections()[c];
  for (int e = connection.edge; e != -1; e = schedules_.edges()[e].next) {
    const FlatEdge& edge = schedules_.edges()[e];
    const Time seen = connection.network ? PassProxy(Flat(edge.lane).rank) : now_;
    events_.Push(seen + edge.latency, What::slot_arrives, static_cast<std::uint32_t>(e));
  }
}

// Slots go over the network in order, one at a time.
void SimulationRun::Post(std::uint32_t c) {
  Connection& connection = connections_[c];
  if (connection.posted++ != connection.sent) return;
  StartFlow(c, waiting_[std::size_t{c} * network_depth_ + connection.sent % network_depth_], kInfinity);
}

// Returns when the rank's proxy, if it has one, is done with one more slot.
Time SimulationRun::PassProxy(int rank) {
  if (proxies_.empty()) return now_;
  Time& free = proxies_[static_cast<std::size_t>(rank)];
  free = std::max(free, now_) + message_time_;
  return free;
}

void SimulationRun::EndStep(std::uint32_t number) {
  Lane& lane = lanes_[number];
  const FlatLane& flat = Flat(number);
  const FlatStep& step = schedules_.step(flat, lane.step);
  for (const std::uint32_t e : schedules_.Empties(step)) {
    ++edges_[e].emptied;
    events_.Push(now_ + schedules_.edges()[e].latency, What::slot_is_free, e);
  }
  const std::int64_t bytes = schedules_.ChunkBytes(flat, step, lane.chunk);
  for (const std::uint32_t c : schedules_.Fills(step)) {
    if (!schedules_.connections()[c].network) {
      Deliver(c);
      continue;
    }
    Connection& connection = connections_[c];
    waiting_[std::size_t{c} * network_depth_ + connection.queued++ % network_depth_] = bytes;
    events_.Push(PassProxy(flat.rank), What::slot_is_posted, c);
  }
  if (input_.timeline != nullptr) {
    input_.timeline->steps.push_back({flat.rank, flat.channel, flat.number, static_cast<int>(lane.step),
                                      static_cast<int>(lane.chunk), ToMicroseconds(lane.began), ToMicroseconds(now_)});
  }
  ++steps_;
  ++lane.step;
  lane.busy = false;
  last_ = now_;
  if (lane.core != -1) {
    const auto core = static_cast<std::uint32_t>(lane.core);
    cores_[core].busy = false;
    cores_[core].since = now_;
    TakeTurn(core);
    return;
  }
  Wake(number);
  if (!flat.awaited) return;
  for (std::uint32_t i = 0; i < flat.lanes; ++i) {
    if (flat.first_lane + i != number) Wake(flat.first_lane + i);
  }
}

// An idle core visits its ranks in turn, one yield each. Finds the first rank that can move when the core reaches it.
void SimulationRun::PlanTurn(std::uint32_t index) {
  Core& core = cores_[index];
  const std::size_t n = core.ranks.size();
  constexpr Time kNever = std::numeric_limits<Time>::max();
  Time first = kNever;
  for (std::size_t i = 0; i < n; ++i) {
    const Core::Rank& rank = core.ranks[(core.turn + i) % n];
    bool ready = false;
    for (std::uint32_t l = 0; l < rank.lanes && !ready; ++l) ready = Ready(rank.first_lane + l);
    if (!ready) continue;
    Time turn = now_;
    if (n > 1 && yield_time_ > 0) {
      const Time round = static_cast<Time>(n) * yield_time_;
      turn = core.since + static_cast<Time>(i) * yield_time_;
      if (turn < now_) turn += (now_ - turn + round - 1) / round * round;
    }
    first = std::min(first, turn);
  }
  ++core.version;
  if (first != kNever) events_.Push(first, What::turn_begins, index, core.version);
}

void SimulationRun::TakeTurn(std::uint32_t index) {
  Core& core = cores_[index];
  const std::size_t n = core.ranks.size();
  if (n > 1 && yield_time_ > 0 && now_ > core.since) {
    core.turn = (core.turn + static_cast<std::size_t>((now_ - core.since) / yield_time_)) % n;
  }
  core.since = now_;
  for (std::size_t i = 0; i < n; ++i) {
    if (RunRank(core, core.ranks[core.turn])) return;
    core.turn = (core.turn + 1) % n;
    core.since += n > 1 ? yield_time_ : 0;
    if (yield_time_ > 0) break;
  }
  PlanTurn(index);
}

bool SimulationRun::RunRank(Core& core, Core::Rank& rank) {
  for (std::uint32_t i = 0; i < rank.lanes; ++i) {
    const std::uint32_t lane = rank.first_lane + (rank.next + i) % rank.lanes;
    if (!Ready(lane)) continue;
    rank.next = lane - rank.first_lane;
    core.busy = true;
    Begin(lane);
    return true;
  }
  return false;
}

void SimulationRun::CheckFinished() {
  for (std::uint32_t number = 0; number < lanes_.size(); ++number) {
    if (!FindStep(number)) continue;
    const FlatLane& flat = Flat(number);
    Throw(tuttiInvalidArgument, "deadlock: rank {}, channel {}, lane {} waits forever at step {}, chunk {}", flat.rank,
          flat.channel, flat.number, lanes_[number].step, lanes_[number].chunk);
  }
}

}  // namespace tutti::simulator
