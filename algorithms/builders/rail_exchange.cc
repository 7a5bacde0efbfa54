#include "algorithms/builders/rail_exchange.h"

#include <algorithm>
#include <utility>

#include "algorithms/builders/steps.h"

namespace tutti::builders {
namespace {

// In turn t, node k and node t - k (modulo nodes) exchange both ways. In place, a block must be gone before another
// comes into its place; exchanging both ways in one turn spares ranks from waiting for a later one. A node that is its
// own partner exchanges within itself. Where the partner is larger, several of its ranks use one rail's server here,
// one after the other, as in `senders`.
class Exchange {
 public:
  Exchange(const ScheduleRequest& request, const Rails& rails)
      : rails_(rails), rank_(request.rank), node_(rails.NodeOf(rank_)), sent_(request.nranks) {
    const int nodes = rails.nodes();
    // A block must have left before its place is taken, so the lane of sends is written ahead of the others.
    for (int turn = 0; turn < nodes; ++turn) Send(Around(turn - node_, nodes));
    for (int turn = 0; turn < nodes; ++turn) {
      const int partner = Around(turn - node_, nodes);
      if (partner == node_) {
        ExchangeLocally();
      } else {
        HandOut(partner);
      }
      Collect(partner);
    }
  }

  Channel channel() && {
    Channel channel;
    for (auto* steps : {&scatter_, &send_, &collect_}) {
      if (!steps->empty()) channel.lanes.push_back({std::move(*steps)});
    }
    return channel;
  }

 private:
  static constexpr int kScatterLane = 0;
  static constexpr int kSendLane = 1;

  // All blocks have one length, so any of them may name it.
  Step Move(Operand read, Operand write) const { return MakeStep(rank_, {read}, {write}); }
  // In place, the block for q lies where the one from q goes.
  void Receive(std::vector<Step>& steps, Operand read, int q) {
    steps.push_back(Move(read, Out(q)));
    steps.back().after = {sent_[q]};
  }

  void Send(int partner) {
    if (partner == node_) return;
    const int server = rails_.Server(partner, rails_.IndexOf(rank_));
    for (const int q : rails_.RanksOn(partner)) {
      sent_[q] = {kSendLane, static_cast<std::int16_t>(send_.size())};
      send_.push_back(Move(In(q), To(server)));
    }
  }

  void ExchangeLocally() {
    const auto& locals = rails_.RanksOn(node_);
    const int n = static_cast<int>(locals.size());
    scatter_.push_back(Move(In(rank_), Out(rank_)));
    for (const int i : Others(rails_.IndexOf(rank_), n)) {
      sent_[locals[i]] = {kScatterLane, static_cast<std::int16_t>(scatter_.size())};
      scatter_.push_back(Move(In(locals[i]), To(locals[i])));
    }
  }

  // Hands what this rank's rails bring from the partner to the destination ranks.
  void HandOut(int partner) {
    const auto& senders = rails_.RanksOn(partner);
    const auto& locals = rails_.RanksOn(node_);
    for (std::size_t first = 0; first < senders.size(); first += locals.size()) {
      const std::size_t i = first + static_cast<std::size_t>(rails_.IndexOf(rank_));
      if (i >= senders.size()) return;
      for (const int q : locals) {
        if (q == rank_) {
          Receive(scatter_, From(senders[i]), senders[i]);
        } else {
          scatter_.push_back(Move(From(senders[i]), To(q)));
        }
      }
    }
  }

  // Collects what arrives through other ranks of this node.
  void Collect(int partner) {
    const auto& senders = rails_.RanksOn(partner);
    for (int i = 0; i < static_cast<int>(senders.size()); ++i) {
      const int server = rails_.Server(node_, i);
      if (server != rank_) Receive(collect_, From(server), senders[static_cast<std::size_t>(i)]);
    }
  }

  const Rails& rails_;
  int rank_;
  int node_;
  std::vector<After> sent_;  // by a block's destination rank: the step that reads the block from the input
  std::vector<Step> scatter_, send_, collect_;
};

}  // namespace

Schedule ExchangeOverRails(const ScheduleRequest& request, const Rails& rails) {
  Schedule schedule = Answer(request, request.nranks, Exchange(request, rails).channel());
  schedule.reference_safe = true;
  // In place, a result overwrites what a slow server may still have to read.
  schedule.reference_safe_in_place = false;
  return schedule;
}

}  // namespace tutti::builders
