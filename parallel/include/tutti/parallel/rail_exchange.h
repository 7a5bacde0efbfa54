// Sends a token once to each host that has an expert of it, however many of its experts are there: the first level of a
// two-level dispatch. The token goes to the rank with the sender's place in its host - its rail - so that no two rails
// share a network card between hosts. One row a host comes back, too: contributions are added up before they leave it.
//
// Sources: DeepSeek's DeepEP (internode dispatch); NCCL's PXN for the name of rails.
//
// Without a group it does the same inside the rank and sends nothing: contributions are added in the same order, so
// that both ways give the same bits.
//
// Thread-safety: as ExpertExchange.
#pragma once

#include "tutti/parallel/expert_exchange.h"
#include "tutti/parallel/index_range.h"

namespace tutti::parallel {

struct TUTTI_API RailPlan {
  std::size_t tokens = 0;                                // of this rank
  std::vector<std::size_t> send_counts, receive_counts;  // copies, by host
  Buffer token_of;                                       // [copies, 1]
  Buffer copy_of;                                        // [tokens, hosts]

  // For the rows that this rank passes on inside its host: their experts there, [rows, topk] or -1, and the number of
  // rows from each host. Without a group: for all copies, with the experts' own numbers.
  std::vector<std::int32_t> experts;
  std::vector<std::size_t> segments;

  std::size_t rows() const { return copies_of(segments); }
  static std::size_t copies_of(const std::vector<std::size_t>& counts);
};

class TUTTI_API RailExchange {
 public:
  // `rail` has a rank of each of `hosts` hosts, or is null. REQUIRES: hosts divides ranks, over which experts are divided.
  RailExchange(ProcessGroup* rail, Compute& compute, std::size_t hosts, std::size_t ranks, std::size_t num_experts,
               std::size_t topk);

  std::size_t hosts() const { return hosts_; }
  // Of all its ranks.
  IndexRange experts_of(std::size_t host) const;

  // All are collective. experts: [tokens, topk], or -1.
  RailPlan plan(const std::vector<std::int32_t>& experts);
  // Sends rows [plan.tokens, ..] to the hosts: [plan.rows(), ..].
  Buffer send(const RailPlan& plan, const Tensor& rows);
  // Sends the hosts' rows [plan.rows(), ..] back; adds a token's in the order of hosts. output [plan.tokens, ..].
  void send_back(const RailPlan& plan, const Tensor& rows, const Tensor& output);

 private:
  void Pass(RailPlan& plan);

  ProcessGroup* rail_;
  Compute& compute_;
  std::size_t hosts_, ranks_, num_experts_, topk_;
};

}  // namespace tutti::parallel
