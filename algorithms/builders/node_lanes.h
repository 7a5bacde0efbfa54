// The lanes of one rank of a two-level schedule under construction: the rails that it serves, and the ranks of its node
// that it gives to and takes from, directly or by a switch that adds what is given and multiplies results (nvls.cc).
//
// Thread-safety: none; one owner.
#pragma once

#include <utility>
#include <vector>

#include "algorithms/builders/rails.h"
#include "algorithms/builders/steps.h"

namespace tutti::builders {

// Connections between the ranks of a node (two_level.cc).
inline constexpr int kGiving = 0;
inline constexpr int kResults = 1;
inline constexpr int kNodeConnections = 2;

enum class Inside { links, a_switch };  // of a node

class NodeLanes {
 public:
  NodeLanes(const Rails& rails, int rank, Inside inside)
      : rails_(rails), rank_(rank), node_(rails.NodeOf(rank)), inside_(inside) {
    for (const int local : rails.RanksOn(node_)) {
      if (local != rank) others_.push_back(local);
    }
  }

  int node() const { return node_; }
  int Server(int rail) const { return rails_.Server(node_, rail); }
  bool Serves(int rail) const { return Server(rail) == rank_; }

  // Gives this rank's contribution to the rank that serves the rail.
  void Give(int rail, int block) {
    const int server = Server(rail);
    const Operand given = inside_ == Inside::a_switch ? Contribution(server) : By(kGiving, To(server));
    give_.push_back(MakeStep(block, {Scaled(block)}, {given}));
  }
  // Gives a root's data, likewise.
  void GiveWhole(int rail, int block) {
    give_.push_back(MakeStep(block, {In(block)}, {Out(block), By(kGiving, To(Server(rail)))}));
  }
  // The contributions of all ranks of this node to a block of a rail that this rank serves.
  std::vector<Operand> Given(int rail, int block) {
    if (inside_ == Inside::a_switch) {
      Give(rail, block);
      return {TeamSum()};
    }
    std::vector<Operand> reads = {Scaled(block)};
    for (const int local : others_) reads.push_back(By(kGiving, From(local)));
    return reads;
  }

  // Sends a result of a rail that this rank serves to all other ranks of the node, but not to `except`, which a switch
  // cannot leave out.
  void AddResults(std::vector<Operand>& writes, int except = -1) const {
    if (inside_ == Inside::a_switch) {
      if (!others_.empty()) writes.push_back(Multicast(rank_));
      return;
    }
    for (const int local : others_) {
      if (local != except) writes.push_back(By(kResults, To(local)));
    }
  }
  // Takes a result of a rail that another rank serves.
  void Take(int rail, int block) {
    const int server = Server(rail);
    const Operand result = inside_ == Inside::a_switch ? Multicast(server) : By(kResults, From(server));
    take_.push_back(MakeStep(block, {result}, {Out(block)}));
  }

  void Up(Step step) { Append(up_, std::move(step)); }
  void Down(Step step) { Append(down_, std::move(step)); }

  Channel channel() && {
    Channel channel;
    for (auto* steps : {&give_, &up_, &down_, &take_}) {
      if (!steps->empty()) channel.lanes.push_back({std::move(*steps)});
    }
    return channel;
  }

 private:
  const Rails& rails_;
  int rank_;
  int node_;
  Inside inside_;
  std::vector<int> others_;  // on the node
  std::vector<Step> give_, up_, down_, take_;
};

// The part of a rank in a reduce-scatter, an all-gather or an all-reduce by a ring of nodes on each rail (two_level.cc).
Channel RailRingChannel(const ScheduleRequest& request, const Rails& rails, Inside inside);

}  // namespace tutti::builders
