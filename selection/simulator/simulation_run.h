// The machine behind simulate.h: lanes, connections and cores, moved from event to event.
//
// Thread-safety: none; one owner, one run.
#pragma once

#include <cstdint>
#include <vector>

#include "selection/simulator/event_queue.h"
#include "selection/simulator/flat_schedules.h"
#include "selection/simulator/flows.h"
#include "selection/simulator/simulate.h"

namespace tutti::simulator {

class SimulationRun {
 public:
  // REQUIRES: both outlive the run.
  SimulationRun(const FlatSchedules& schedules, const SimulationInput& input);

  SimulationResult Run();

 private:
  enum class What : std::uint8_t {
    step_ends,       // of a lane
    flow_ends,       // of a connection
    slot_arrives,    // at an edge
    slot_is_free,    // at an edge: its writer sees that it was emptied
    turn_begins,     // on a core
    slot_is_posted,  // of a connection over the network
    lane_begins,
  };

  struct Lane {
    std::uint32_t chunk = 0;
    std::uint32_t step = 0;
    std::uint32_t crossing = 0;  // flows that the step waits for
    std::int32_t core = -1;      // the core that it shares; -1: it has its own executor
    bool busy = false;
    Time began = 0;
    Time after_crossing = 0;  // of the step, besides its own cost: its messages, or a sum's latency
  };
  struct Edge {
    std::uint32_t arrived = 0;
    std::uint32_t emptied = 0;
    std::uint32_t free_again = 0;
  };
  struct Connection {
    std::uint32_t filled = 0;
    // Over the network, totals of slots: filled (their sizes are in waiting_), seen by the proxy, across.
    std::uint32_t queued = 0;
    std::uint32_t posted = 0;
    std::uint32_t sent = 0;
    std::int64_t bytes = 0;  // of the flow under way
    Time began = 0;
  };
  // A core runs the lanes of one rank while any can move, then passes itself on to the next rank.
  struct Core {
    struct Rank {
      std::uint32_t first_lane, lanes;
      std::uint32_t next = 0;  // lane to look at first
    };
    std::vector<Rank> ranks = {};
    std::size_t turn = 0;  // the rank whose turn it is at `since`, if none can move
    Time since = 0;
    bool busy = false;
    std::uint32_t version = 0;  // of the turn that is planned
  };

  // The number of the thread of its rank that drives this lane.
  int ThreadOf(std::uint32_t lane) const { return Flat(lane).channel * threads_ / channels_; }
  void GiveOutCores();
  void Handle(const EventQueue<What>::Event& event);

  bool FindStep(std::uint32_t lane);
  bool Ready(std::uint32_t lane);
  void Wake(std::uint32_t lane);
  void Begin(std::uint32_t lane);
  double Moving(const FlatStep& step, std::int64_t bytes) const;
  Time Messaging(const FlatLane& flat, std::uint32_t step, std::uint32_t chunk);
  void EndStep(std::uint32_t lane);
  void StartFlow(std::uint32_t connection, std::int64_t bytes, double peak);
  void EndFlow(std::uint32_t connection);
  void Deliver(std::uint32_t connection);
  void Post(std::uint32_t connection);
  Time PassProxy(int rank);

  void PlanTurn(std::uint32_t core);
  void TakeTurn(std::uint32_t core);
  bool RunRank(Core& core, Core::Rank& rank);

  const FlatLane& Flat(std::uint32_t lane) const { return schedules_.lanes()[lane]; }
  void CheckFinished();

  const FlatSchedules& schedules_;
  const SimulationInput& input_;
  const int channels_;  // of a rank
  const int threads_;   // of a rank that drive them
  const std::uint32_t depth_;          // slots of a connection inside a node,
  const std::uint32_t network_depth_;  // and between nodes
  const cost_model::WorkingSet working_set_;
  const Time step_time_;
  const Time yield_time_;
  const Time message_time_;
  Flows flows_;  // flow c carries connection c
  EventQueue<What> events_;
  Time now_;
  std::vector<Lane> lanes_;
  std::vector<Connection> connections_;
  std::vector<Edge> edges_;
  std::vector<Core> cores_;
  std::vector<Time> proxies_;          // by rank: when its proxy is free
  std::vector<std::int64_t> waiting_;  // network_depth_ for each connection, if there is a network
  std::vector<bool> riding_;           // likewise: whether the slot rides in an earlier one's message
  std::size_t steps_ = 0;
  Time last_ = 0;
};

}  // namespace tutti::simulator
