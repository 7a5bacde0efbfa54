#include "tutti/parallel/rail_exchange.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace tutti::parallel {

std::size_t RailPlan::copies_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

RailExchange::RailExchange(ProcessGroup* rail, Compute& compute, std::size_t hosts, std::size_t ranks,
                           std::size_t num_experts, std::size_t topk)
    : rail_(rail), compute_(compute), hosts_(hosts), ranks_(ranks), num_experts_(num_experts), topk_(topk) {}

IndexRange RailExchange::experts_of(std::size_t host) const {
  const std::size_t ranks = ranks_ / hosts_;
  return {part_of(num_experts_, host * ranks, ranks_).begin, part_of(num_experts_, (host + 1) * ranks - 1, ranks_).end};
}

RailPlan RailExchange::plan(const std::vector<std::int32_t>& experts) {
  RailPlan plan;
  plan.tokens = experts.size() / topk_;
  plan.send_counts.resize(hosts_);
  std::vector<std::int32_t> token_of, copy_of(plan.tokens * hosts_, -1);
  for (std::size_t host = 0; host < hosts_; ++host) {
    const auto here = experts_of(host);
    const auto first = static_cast<std::int32_t>(here.begin), end_of_host = static_cast<std::int32_t>(here.end);
    const auto is_there = [=](std::int32_t expert) { return expert >= first && expert < end_of_host; };
    for (std::size_t token = 0; token < plan.tokens; ++token) {
      const auto begin = experts.begin() + static_cast<std::ptrdiff_t>(token * topk_);
      const auto end = begin + static_cast<std::ptrdiff_t>(topk_);
      if (std::none_of(begin, end, is_there)) continue;
      copy_of[token * hosts_ + host] = static_cast<std::int32_t>(token_of.size());
      token_of.push_back(static_cast<std::int32_t>(token));
      ++plan.send_counts[host];
      const std::int32_t base = rail_ == nullptr ? 0 : first;
      std::transform(begin, end, std::back_inserter(plan.experts),
                     [=](std::int32_t expert) { return is_there(expert) ? expert - base : -1; });
    }
  }
  plan.token_of = uploaded(compute_, token_of, 1);
  plan.copy_of = uploaded(compute_, copy_of, hosts_);
  plan.segments = {token_of.size()};
  if (rail_ != nullptr) Pass(plan);
  return plan;
}

// Completes the plan by what other ranks send this one.
void RailExchange::Pass(RailPlan& plan) {
  std::vector<std::int32_t> counts(plan.send_counts.begin(), plan.send_counts.end()), arriving(hosts_);
  const std::vector<std::size_t> one_each(hosts_, 1);
  rail_->all_to_all(Tensor(counts.data(), {hosts_}, tuttiInt32), one_each,
                    Tensor(arriving.data(), {hosts_}, tuttiInt32), one_each);
  plan.receive_counts.assign(arriving.begin(), arriving.end());
  plan.segments = plan.receive_counts;
  std::vector<std::int32_t> experts(plan.rows() * topk_);
  all_to_all_rows(*rail_, Tensor(plan.experts.data(), {plan.experts.size() / topk_, topk_}, tuttiInt32),
                  plan.send_counts, Tensor(experts.data(), {plan.rows(), topk_}, tuttiInt32), plan.receive_counts,
                  nullptr);
  plan.experts = std::move(experts);
}

Buffer RailExchange::send(const RailPlan& plan, const Tensor& rows) {
  Buffer copies(compute_, {RailPlan::copies_of(plan.send_counts), rows.columns()}, rows.dtype);
  compute_.sum_rows(rows, plan.token_of, Tensor(), copies);
  if (rail_ == nullptr) return copies;
  Buffer arrived(compute_, {plan.rows(), rows.columns()}, rows.dtype);
  all_to_all_rows(*rail_, copies, plan.send_counts, arrived, plan.receive_counts, compute_.stream());
  return arrived;
}

void RailExchange::send_back(const RailPlan& plan, const Tensor& rows, const Tensor& output) {
  if (rail_ == nullptr) return compute_.sum_rows(rows, plan.copy_of, Tensor(), output);
  const Buffer back(compute_, {RailPlan::copies_of(plan.send_counts), rows.columns()}, rows.dtype);
  all_to_all_rows(*rail_, rows, plan.receive_counts, back, plan.send_counts, compute_.stream());
  compute_.sum_rows(back, plan.copy_of, Tensor(), output);
}

}  // namespace tutti::parallel
