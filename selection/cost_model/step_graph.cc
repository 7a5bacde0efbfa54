#include "selection/cost_model/step_graph.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "algorithms/builders/steps.h"
#include "algorithms/schedule/binding.h"
#include "algorithms/schedule/ways.h"
#include "selection/cost_model/machine_constants.h"

namespace tutti::cost_model {
namespace {

bool IsSlot(const schedule::Operand& operand) { return schedule::IsSlot(operand.kind); }

// A slot that a step fills or empties. A connection's slots are filled and emptied in the same order: the k-th filled
// is the k-th emptied.
struct Passage {
  int writer;  // member
  int reader;  // rank, as the writer sees it; kEverybody: posted
  int channel;
  int connection;
  int step;  // counted through all lanes

  auto connection_key() const { return std::tie(writer, reader, channel, connection); }
};
constexpr int kEverybody = -1;  // in shared memory, all ranks read one slot

// The emptying side also records which of the members served by a stand-in it is.
struct Arrival {
  Passage passage;
  int member;
  int peer;  // rank
  int number;
  auto key() const { return std::tuple_cat(passage.connection_key(), std::tie(member, peer)); }
};

template <typename T>
int IndexIn(std::vector<T>& known, const T& value) {
  const auto found = std::find(known.rbegin(), known.rend(), value);
  if (found != known.rend()) return static_cast<int>(known.rend() - found) - 1;
  known.push_back(value);
  return static_cast<int>(known.size()) - 1;
}

class Builder {
 public:
  Builder(StepGraph& graph, const Machine& machine, const RepresentativeRanks& representatives)
      : graph_(graph), machine_(machine), representatives_(representatives) {}

  void Build() {
    FindLanes();
    FindPassages();
    FindBursts();
    CountSends();
    CountRings();
    MatchPassages();
    FindRides();
    Order();
    graph_.lanes = static_cast<int>(lanes_.size());
    graph_.nodes.push_back({0, 0, 0, static_cast<int>(graph_.waits.size())});
  }

 private:
  // A step's slots may refer to memory instead of holding data: to the user's input, or to a result of this call.
  enum class Referred : char { nothing, input, result };
  static Referred ReferredBy(const schedule::Step& step) {
    const int operand = schedule::ReferableOf(step);
    if (operand < 0 || std::none_of(step.writes.begin(), step.writes.end(), IsSlot)) return Referred::nothing;
    const bool input = operand == 0 && step.reads.front().kind == schedule::OperandKind::input;
    return input ? Referred::input : Referred::result;
  }

  struct LaneOf {
    int member;
    int channel;
    int channel_lane;  // lane 0 of the channel, in lanes_
    int first_step;
    const std::vector<schedule::Step>* steps;
  };
  // The origin of an awaited slot.
  struct Source {
    int filled_by = -1;  // step; -1: none
    int way = -1;
  };

  void FindLanes() {
    const auto& members = representatives_.members();
    for (std::size_t m = 0; m < members.size(); ++m) {
      for (std::size_t c = 0; c < members[m].channels.size(); ++c) {
        const int channel_lane = static_cast<int>(lanes_.size());
        for (const auto& lane : members[m].channels[c].lanes) {
          lanes_.push_back({static_cast<int>(m), static_cast<int>(c), channel_lane, steps_, &lane.steps});
          steps_ += static_cast<int>(lane.steps.size());
        }
      }
    }
  }

  void FindPassages() {
    int step = 0;
    for (const auto& lane : lanes_) {
      const bool may_refer = MemberOf(lane).reference_safe;
      for (const auto& each : *lane.steps) {
        first_source_.push_back(static_cast<int>(emptied_.size()));
        refers_.push_back(may_refer ? ReferredBy(each) : Referred::nothing);
        for (const auto& write : each.writes) {
          if (write.kind == schedule::OperandKind::post && shared_memory_) {
            filled_.push_back({lane.member, kEverybody, lane.channel, schedule::kPosts, step});
            continue;
          }
          schedule::EachWayWritten(MemberOf(lane), write, [&](const schedule::Way& way) {
            filled_.push_back({lane.member, way.reader, lane.channel, way.number, step});
          });
        }
        for (const auto& read : each.reads) {
          schedule::EachWayRead(MemberOf(lane), read, [&](const schedule::Way& way) {
            const auto [stand_in, seen_as] = representatives_.For(lane.member, way.writer);
            const int reader = way.number == schedule::kPosts && shared_memory_ ? kEverybody : seen_as;
            emptied_.push_back({{stand_in, reader, lane.channel, way.number, step},
                                lane.member,
                                way.writer,
                                static_cast<int>(emptied_.size())});
          });
        }
        ++step;
      }
    }
    first_source_.push_back(static_cast<int>(emptied_.size()));
    std::stable_sort(filled_.begin(), filled_.end(),
                     [](const Passage& a, const Passage& b) { return a.connection_key() < b.connection_key(); });
    std::stable_sort(emptied_.begin(), emptied_.end(),
                     [](const Arrival& a, const Arrival& b) { return a.key() < b.key(); });
  }

  void CountSends() {
    if (one_memory_) {
      graph_.slots_of_a_crossing = SlotsOfAnAccess(representatives_.members().front().one_launch);
      return CountAccesses();
    }
    for (const auto& each : filled_) {
      if (each.connection == schedule::kContributions || each.connection == schedule::kMulticasts) continue;
      if (each.reader != kEverybody) {
        CountSend(each.writer, each.reader, each.channel);
        continue;
      }
      // A post's bytes cross to another node once: its first reader brings them into the cache of the others.
      const auto& where = machine_.rank_layout();
      for (int node = 0; node < where.nodes(); ++node) {
        if (node != where.node_of[RankOf(each.writer)])
          CountSend(each.writer, where.ranks_on[node].front(), each.channel);
      }
    }
  }

  void CountSend(int writer, int reader, int channel) {
    auto& sends = graph_.sends;
    if (sends.empty() ||
        std::tie(sends.back().member, sends.back().peer, sends.back().channel) != std::tie(writer, reader, channel)) {
      sends.push_back({writer, reader, channel, 0, WayBetween(RankOf(writer), reader)});
    }
    ++sends.back().slots;
  }

  // Lanes of a channel follow each other with a chunk, so the one that writes most counts.
  void FindBursts() {
    const auto crosses = [this](int member, const schedule::Operand& write) {
      return write.kind == schedule::OperandKind::to && graph_.ways[WayBetween(RankOf(member), write.peer)].network;
    };
    for (const auto& lane : lanes_) {
      if (lane.channel_lane == &lane - lanes_.data()) graph_.bursts.push_back({lane.member, lane.channel, {}});
      auto& peers = graph_.bursts.back().peers;
      for (const auto& step : *lane.steps) {
        const auto is_one = [&](const auto& write) { return crosses(lane.member, write); };
        if (std::ranges::count_if(step.writes, is_one) <= std::ssize(peers)) continue;
        peers.clear();
        for (const auto& write : step.writes) {
          if (is_one(write)) peers.push_back(write.peer);
        }
      }
    }
  }

  void CountRings() {
    const auto members = representatives_.members().size();
    std::vector<int> all(members), beside_fetches(members);
    for (auto first = filled_.cbegin(); first != filled_.cend();) {
      const auto next = std::find_if(first, filled_.cend(), [first](const Passage& passage) {
        return passage.connection_key() != first->connection_key();
      });
      const bool local =
          first->reader == kEverybody || !graph_.ways[WayBetween(RankOf(first->writer), first->reader)].network;
      ++all[first->writer];
      if (!local || !std::all_of(first, next, [this](const Passage& passage) {
            return refers_[passage.step] != Referred::nothing;
          })) {
        ++beside_fetches[first->writer];
      }
      first = next;
    }
    graph_.rings = *std::max_element(all.begin(), all.end());
    graph_.rings_beside_fetches = *std::max_element(beside_fetches.begin(), beside_fetches.end());
  }

  void MatchPassages() {
    sources_.resize(emptied_.size());
    auto begin = filled_.cbegin();
    auto next = begin;
    for (auto arrival = emptied_.cbegin(); arrival != emptied_.cend(); ++arrival) {
      const auto connection = arrival->passage.connection_key();
      if (arrival == emptied_.cbegin() || std::prev(arrival)->key() != arrival->key()) {
        while (begin != filled_.cend() && begin->connection_key() < connection) ++begin;
        next = begin;
      }
      if (next == filled_.cend() || next->connection_key() != connection) continue;
      sources_[arrival->number] = {next->step, WayBetween(arrival->peer, RankOf(arrival->member))};
      ++next;
    }
  }

  // Whether the step's slots for other hosts go with those of the step before it (machine.h).
  void FindRides() {
    rides_.assign(static_cast<std::size_t>(steps_), false);
    const auto from_network = [&](const Source& source) {
      return source.filled_by != -1 && graph_.ways[source.way].network;
    };
    for (const auto& lane : lanes_) {
      const auto riding = schedule::RidingSteps(*lane.steps);
      for (std::size_t s = 0; s < riding.size(); ++s) {
        const int step = lane.first_step + static_cast<int>(s);
        rides_[static_cast<std::size_t>(step)] =
            riding[s] && std::none_of(sources_.begin() + first_source_[step],
                                      sources_.begin() + first_source_[step + 1], from_network);
      }
    }
  }

  // Each lane advances until it waits for a step that is not ordered yet; that step wakes it.
  void Order() {
    number_.assign(static_cast<std::size_t>(steps_), -1);
    waiting_.assign(static_cast<std::size_t>(steps_), -1);
    next_waiting_.assign(lanes_.size(), -1);
    done_.assign(lanes_.size(), 0);
    for (auto i = static_cast<int>(lanes_.size()); i-- > 0;) ready_.push_back(i);
    do {
      while (!ready_.empty()) {
        const int lane = ready_.back();
        ready_.pop_back();
        Advance(lane);
      }
    } while (ForgetAWait());
  }

  bool Finished(int lane) const { return done_[lane] == static_cast<int>(lanes_[lane].steps->size()); }

  void Advance(int index) {
    const LaneOf& lane = lanes_[index];
    for (; !Finished(index); ++done_[index]) {
      const int step = lane.first_step + done_[index];
      const int missing = FirstMissing(index);
      if (missing != -1) {
        next_waiting_[index] = std::exchange(waiting_[missing], index);
        return;
      }
      Put(index, step);
      Wake(step);
    }
  }

  void Wake(int step) {
    for (int lane = std::exchange(waiting_[step], -1); lane != -1; lane = next_waiting_[lane]) ready_.push_back(lane);
  }

  // Drops a wait of the first lane that waits for a slot; false: no lane does.
  bool ForgetAWait() {
    for (int index = 0; index < static_cast<int>(lanes_.size()); ++index) {
      if (Finished(index)) continue;
      const int step = lanes_[index].first_step + done_[index];
      for (int s = first_source_[step]; s < first_source_[step + 1]; ++s) {
        const int filled_by = sources_[s].filled_by;
        if (filled_by == -1 || number_[filled_by] != -1) continue;
        sources_[s].filled_by = -1;
        Wake(filled_by);
        return true;
      }
    }
    return false;
  }

  int StepOf(const LaneOf& lane, const schedule::After& after) const {
    return lanes_[lane.channel_lane + after.lane].first_step + after.step;
  }

  int FirstMissing(int index) const {
    const LaneOf& lane = lanes_[index];
    const int step = lane.first_step + done_[index];
    for (const auto& after : (*lane.steps)[done_[index]].after) {
      if (number_[StepOf(lane, after)] == -1) return StepOf(lane, after);
    }
    for (int s = first_source_[step]; s < first_source_[step + 1]; ++s) {
      const int filled_by = sources_[s].filled_by;
      if (filled_by != -1 && number_[filled_by] == -1) return filled_by;
    }
    return -1;
  }

  void Put(int index, int step) {
    const LaneOf& lane = lanes_[index];
    const schedule::Step& described = (*lane.steps)[done_[index]];
    const int number = static_cast<int>(graph_.nodes.size());
    graph_.nodes.push_back({lane.member, index, IndexIn(graph_.works, WorkOf(lane.member, step, described)),
                            static_cast<int>(graph_.waits.size())});
    if (done_[index] > 0) graph_.waits.push_back({number_[step - 1]});
    for (const auto& after : described.after) graph_.waits.push_back({number_[StepOf(lane, after)]});
    for (int s = first_source_[step]; s < first_source_[step + 1]; ++s) {
      if (sources_[s].filled_by != -1) graph_.waits.push_back({number_[sources_[s].filled_by], sources_[s].way});
    }
    number_[step] = number;
  }

  StepGraph::Work WorkOf(int member, int index, const schedule::Step& step) {
    StepGraph::Work work;
    auto& copying = work.copying;
    for (const auto& read : step.reads) ++(IsSlot(read) ? copying.slot_reads : copying.memory);
    if (step.reads.size() > 1) copying.summands = static_cast<int>(step.reads.size());
    crossed_.clear();
    for (const auto& read : step.reads) {
      if (read.kind != schedule::OperandKind::sum) continue;
      const Route route = machine_.SumRouteOf(RankOf(member));
      work.read_us = std::max(work.read_us, route.latency.front());
      CrossInSwitch(member, true, route);
    }
    int within_node = 0;  // of the slots written
    const auto write_slot = [&](int peer) {
      ++copying.slot_writes;
      const bool network = graph_.ways[WayBetween(RankOf(member), peer)].network;
      ++(network ? work.messages : within_node);
      if (network && rides_[static_cast<std::size_t>(index)]) ++work.riding;
      if (!one_memory_) Cross(RankOf(member), peer);
    };
    for (const auto& write : step.writes) {
      if (!IsSlot(write)) {
        ++copying.memory;
      } else if (write.kind == schedule::OperandKind::to) {
        write_slot(write.peer);
      } else if (shared_memory_ || schedule::IsOfTeam(write.kind)) {
        ++copying.slot_writes;
        ++within_node;
        if (write.kind == schedule::OperandKind::multicast)
          CrossInSwitch(member, false, machine_.MulticastRouteOf(RankOf(member)));
      } else {
        for (const int peer : builders::Others(RankOf(member), representatives_.nranks())) write_slot(peer);
      }
    }
    for (int s = first_source_[index]; s < first_source_[index + 1]; ++s) {
      const auto& source = sources_[s];
      if (source.filled_by == -1 || !graph_.ways[source.way].network) continue;
      ++work.messages;
      if (rides_[static_cast<std::size_t>(source.filled_by)]) ++work.riding;
    }
    if (one_memory_) CrossMemory(member, index, step);
    for (const auto& [resource, us_per_byte] : crossed_) work.us_per_byte = std::max(work.us_per_byte, us_per_byte);
    work.fetching = Fetching(index, step, copying, within_node);
    return work;
  }

  // `within_node`: of the slots that the step writes.
  StepGraph::Operands Fetching(int index, const schedule::Step& step, const StepGraph::Operands& copying,
                               int within_node) const {
    StepGraph::Operands fetching = copying;
    if (refers_[index] != Referred::nothing) {
      fetching.slot_writes -= within_node;
      // A step that only makes references does not read what they refer to.
      const bool moves_nothing = fetching.slot_writes == 0 && step.reads.size() == 1 &&
                                 std::all_of(step.writes.begin(), step.writes.end(), IsSlot);
      if (moves_nothing) fetching.memory = 0;
    }
    for (int s = first_source_[index]; s < first_source_[index + 1]; ++s) {
      const auto& source = sources_[s];
      if (source.filled_by == -1 || graph_.ways[source.way].network) continue;
      const Referred referred = refers_[source.filled_by];
      if (referred == Referred::nothing) continue;
      ++fetching.fetches;
      // The model counts a result that the peer has just written as a slot, because the peer's core still holds it. It
      // counts the peer's input as memory. (A copy's own destination is counted already.)
      if (referred == Referred::input) {
        ++fetching.memory;
        --fetching.slot_reads;
      }
      if (step.reads.size() > 1) ++fetching.slot_writes;  // a reduction's source comes into a buffer as a slot does
    }
    return fetching;
  }

  int AccessesOf(int index, const schedule::Step& step) const {
    return schedule::AccessesOf(step, refers_[index] != Referred::nothing);
  }
  void CountAccesses() {
    int index = 0;
    for (const auto& lane : lanes_) {
      for (const auto& step : *lane.steps) {
        for (int access = 0; access < AccessesOf(index, step); ++access)
          CountSend(lane.member, RankOf(lane.member), lane.channel);
        ++index;
      }
    }
  }
  void CrossMemory(int member, int index, const schedule::Step& step) {
    const int rank = RankOf(member);
    for (int access = 0; access < AccessesOf(index, step); ++access) Cross(rank, rank);
  }

  void Cross(int from, int to) {
    const auto& way = graph_.ways[WayBetween(from, to)];
    if (way.network || way.us_per_byte == 0) return;
    Cross(machine_.RouteOf(from, to, 0), graph_.slots_of_a_crossing);
  }
  void CrossInSwitch(int member, bool sum, const Route& route) {
    graph_.in_switch.push_back({member, sum});
    Cross(route, 1 / machine_.costs().in_switch_efficiency);
  }
  // A step that crosses one link several times shares the link with itself.
  void Cross(const Route& route, double slots) {
    for (const int resource : route.resources) {
      const auto found = std::find_if(crossed_.begin(), crossed_.end(),
                                      [resource](const auto& each) { return each.first == resource; });
      const double us = slots * UsPerByte(machine_.resource(resource).bandwidth);
      if (found != crossed_.end()) {
        found->second += us;
      } else {
        crossed_.emplace_back(resource, us);
      }
    }
  }

  const schedule::Schedule& MemberOf(const LaneOf& lane) const {
    return representatives_.members()[static_cast<std::size_t>(lane.member)];
  }
  int RankOf(int member) const { return representatives_.members()[member].rank; }

  int WayBetween(int from, int to) {
    const auto [found, fresh] =
        ways_.try_emplace(static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to), 0);
    if (!fresh) return found->second;
    const Route route = machine_.RouteOf(from, to, 0);
    StepGraph::Way way{route.latency, 0, route.network};
    for (const int resource : route.resources) {
      way.us_per_byte = std::max(way.us_per_byte, UsPerByte(machine_.resource(resource).bandwidth));
    }
    return found->second = IndexIn(graph_.ways, way);
  }

  StepGraph& graph_;
  const Machine& machine_;
  const RepresentativeRanks& representatives_;
  // Ranks that share a node's cores share its memory too.
  const bool shared_memory_ = machine_.costs().cores > 0;
  const bool one_memory_ = machine_.one_memory();
  std::vector<LaneOf> lanes_;
  int steps_ = 0;
  std::vector<Passage> filled_;
  std::vector<Arrival> emptied_;
  std::vector<Source> sources_;  // those of a step are sources_[first_source_[step] ... first_source_[step + 1])
  std::vector<int> first_source_;
  std::vector<Referred> refers_;                 // by step
  std::vector<bool> rides_;                      // by step
  std::vector<int> number_;                      // by step: its node, -1: still to come
  std::vector<int> waiting_;                     // by step: the first lane that waits for it
  std::vector<int> next_waiting_;                // by lane: the next one that waits for the same step
  std::vector<int> done_;                        // by lane: steps
  std::vector<int> ready_;                       // lanes that may be able to go on
  std::unordered_map<std::uint64_t, int> ways_;  // by ranks
  std::vector<std::pair<int, double>> crossed_;  // resources and us a byte, of one step
};

}  // namespace

StepGraph::StepGraph(const Machine& machine, const RepresentativeRanks& representatives) {
  Builder(*this, machine, representatives).Build();
}

}  // namespace tutti::cost_model
