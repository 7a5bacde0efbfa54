// A token to each host that has an expert of it, once, however many experts it has there: the first level of a
// two-level dispatch. It goes to the rank with the sender's place in its host - its rail - and so between hosts no two
// rails share a network card. What comes back is one row a host, too: contributions are added up before they leave it.
//
// Sources: DeepSeek's DeepEP (internode dispatch); NCCL's PXN for the name of rails.
//
// Without a group it does the same inside the rank and sends nothing: then contributions are added in the same order,
// so that both ways give the same bits.
//
// Thread-safety: as ExpertExchange.
#pragma once

#include "tutti/parallel/expert_exchange.h"

namespace tutti::parallel {

struct RailPlan {
  std::size_t tokens = 0;                                // at home
  std::vector<std::size_t> send_counts, receive_counts;  // copies, by host
  Buffer token_of;                                       // [copies, 1]
  Buffer copy_of;                                        // [tokens, hosts]

  // Of the rows that this rank passes on inside its host: their experts there, [rows, topk] or -1, and how many of them
  // come from each host. Without a group: of all copies, with the experts' own numbers.
  std::vector<std::int32_t> experts;
  std::vector<std::size_t> segments;

  std::size_t rows() const { return copies_of(segments); }
  static std::size_t copies_of(const std::vector<std::size_t>& counts);
};

class RailExchange {
 public:
  // `rail` has a rank of each of `hosts` hosts, or is null. REQUIRES: hosts divides num_experts.
  RailExchange(ProcessGroup* rail, Compute& compute, std::size_t hosts, std::size_t num_experts, std::size_t topk);

  std::size_t hosts() const { return hosts_; }

  // Collective, all. experts: [tokens, topk], or -1.
  RailPlan plan(const std::vector<std::int32_t>& experts);
  // rows [plan.tokens, ..] to the hosts: [plan.rows(), ..].
  Buffer send(const RailPlan& plan, const Tensor& rows);
  // The hosts' rows [plan.rows(), ..] back, where a token's are added in the order of hosts. output [plan.tokens, ..].
  void send_back(const RailPlan& plan, const Tensor& rows, const Tensor& output);

 private:
  void Pass(RailPlan& plan);

  ProcessGroup* rail_;
  Compute& compute_;
  std::size_t hosts_, num_experts_, topk_;
};

}  // namespace tutti::parallel
