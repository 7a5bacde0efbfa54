#include "tutti/parallel/expert_exchange.h"

#include <algorithm>
#include <numeric>

#include "parallel/compute/joining.h"
#include "tutti/parallel/index_range.h"

namespace tutti::parallel {
namespace {

// Rows by expert and segment.
class Counts {
 public:
  Counts(std::size_t experts, std::size_t segments) : segments_(segments), counts_(experts * segments) {}
  std::int32_t& at(std::size_t expert, std::size_t segment) { return counts_[expert * segments_ + segment]; }
  std::vector<std::int32_t>& all() { return counts_; }

 private:
  std::size_t segments_;
  std::vector<std::int32_t> counts_;
};

// Of consecutive parts of the counts.
std::vector<std::size_t> SumsOf(const std::vector<std::int32_t>& counts, const std::vector<std::size_t>& sizes) {
  std::vector<std::size_t> sums;
  auto begin = counts.begin();
  for (const auto size : sizes) {
    const auto end = begin + static_cast<std::ptrdiff_t>(size);
    sums.push_back(static_cast<std::size_t>(std::accumulate(begin, end, 0)));
    begin = end;
  }
  return sums;
}

std::size_t Total(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

void all_to_all_rows(ProcessGroup& group, const Tensor& input, const std::vector<std::size_t>& send_rows,
                     const Tensor& output, const std::vector<std::size_t>& receive_rows, tuttiStream_t stream) {
  const auto elements = [&](std::vector<std::size_t> rows) {
    for (auto& each : rows) each *= input.columns();
    return rows;
  };
  group.all_to_all(input, elements(send_rows), output, elements(receive_rows), stream);
}

ExpertExchange::ExpertExchange(ProcessGroup& group, ProcessGroup* next, Compute& compute, std::size_t num_experts,
                               std::size_t topk)
    : group_(group), next_(next), compute_(compute), num_experts_(num_experts), topk_(topk) {}

ExchangePlan ExpertExchange::plan(const std::vector<std::int32_t>& experts, const std::vector<std::size_t>& segments) {
  const auto size = static_cast<std::size_t>(group_.size());
  const auto experts_of = [&](std::size_t rank) { return part_of(num_experts_, rank, size).size(); };
  const std::size_t local_experts = experts_of(static_cast<std::size_t>(group_.rank()));
  ExchangePlan plan;
  plan.rows = Total(segments);

  // Rows are sent by expert, then row. A rank's experts are adjacent, and so are a segment's rows.
  std::vector<std::vector<std::int32_t>> choices_of(num_experts_);
  Counts counts(num_experts_, segments.size());
  std::size_t row = 0;
  for (std::size_t segment = 0; segment < segments.size(); ++segment) {
    for (const std::size_t end = row + segments[segment]; row < end; ++row) {
      for (std::size_t choice = row * topk_; choice < (row + 1) * topk_; ++choice) {
        if (experts[choice] < 0) continue;
        const auto expert = static_cast<std::size_t>(experts[choice]);
        choices_of[expert].push_back(static_cast<std::int32_t>(choice));
        ++counts.at(expert, segment);
      }
    }
  }
  std::vector<std::int32_t> sent_row_of(experts.size(), -1), home_row_of, choice_of;
  for (const auto& choices : choices_of) {
    for (const auto choice : choices) {
      sent_row_of[static_cast<std::size_t>(choice)] = static_cast<std::int32_t>(choice_of.size());
      home_row_of.push_back(choice / static_cast<std::int32_t>(topk_));
      choice_of.push_back(choice);
    }
  }
  plan.sent = choice_of.size();

  // The only numbers that ranks need from each other.
  const std::size_t per_rank = local_experts * segments.size();
  std::vector<std::int32_t> arriving(size * per_rank);
  std::vector<std::size_t> to_each;
  for (std::size_t rank = 0; rank < size; ++rank) to_each.push_back(experts_of(rank) * segments.size());
  const std::vector<std::size_t> from_each(size, per_rank);
  group_.all_to_all(Tensor(counts.all().data(), {counts.all().size()}, tuttiInt32), to_each,
                    Tensor(arriving.data(), {arriving.size()}, tuttiInt32), from_each);
  plan.send_counts = SumsOf(counts.all(), to_each);
  plan.receive_counts = SumsOf(arriving, from_each);
  plan.received = Total(plan.receive_counts);

  // Rows arrive sorted by source, expert and segment, and must be sorted by expert, segment and source.
  std::vector<std::int32_t> begins(arriving.size());
  std::exclusive_scan(arriving.begin(), arriving.end(), begins.begin(), 0);
  std::vector<std::int32_t> arrived_at, sorted_to(plan.received);
  plan.tokens_per_expert.resize(local_experts);
  for (std::size_t block = 0; block < per_rank; ++block) {
    for (std::size_t source = 0; source < size; ++source) {
      const std::size_t at = source * per_rank + block;
      for (std::int32_t i = begins[at]; i < begins[at] + arriving[at]; ++i) {
        sorted_to[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(arrived_at.size());
        arrived_at.push_back(i);
      }
      plan.tokens_per_expert[block / segments.size()] += static_cast<std::size_t>(arriving[at]);
    }
  }
  plan.sent_row_of = uploaded(compute_, sent_row_of, topk_);
  plan.home_row_of = uploaded(compute_, home_row_of, 1);
  plan.choice_of = uploaded(compute_, choice_of, 1);
  plan.arrived_at = uploaded(compute_, arrived_at, 1);
  plan.sorted_to = uploaded(compute_, sorted_to, 1);
  return plan;
}

void RowsUnderWay::Leave::operator()(ProcessGroup* group) const noexcept {
  if (overlapped) await_communication(*compute);
  group->revoke();
  if (next != nullptr) next->revoke();
}

void ExpertExchange::Exchange(RowsUnderWay& rows, const std::vector<std::size_t>& send_counts,
                              const std::vector<std::size_t>& receive_counts) {
  const Tensor& sent = rows.sent_;
  rows.arrived_ = Buffer(compute_, {Total(receive_counts), sent.columns()}, sent.dtype);
  const bool overlapped = rows.group_.get_deleter().overlapped;
  if (overlapped) compute_.fork_communication();
  all_to_all_rows(group_, sent, send_counts, rows.arrived_, receive_counts,
                  overlapped ? compute_.communication_stream() : compute_.stream());
}

RowsUnderWay ExpertExchange::send(const ExchangePlan& plan, const Tensor& rows, const Tensor& weights,
                                  bool overlapped) {
  require_equal("the number of rows to send", rows.rows(), "the number of rows that were routed", plan.rows);
  RowsUnderWay under_way(group_, next_, compute_, overlapped);
  Buffer weight_of;
  if (weights.data != nullptr) {
    weight_of = Buffer(compute_, {plan.sent, 1}, weights.dtype);
    compute_.sum_rows(Tensor(weights.data, {weights.count(), 1}, weights.dtype), plan.choice_of, Tensor(), weight_of);
  }
  under_way.sent_ = Buffer(compute_, {plan.sent, rows.columns()}, rows.dtype);
  compute_.sum_rows(rows, plan.home_row_of, weight_of, under_way.sent_);
  Exchange(under_way, plan.send_counts, plan.receive_counts);
  return under_way;
}

RowsUnderWay ExpertExchange::send_back(const ExchangePlan& plan, const Tensor& rows, bool overlapped) {
  require_equal("the number of rows to send back", rows.rows(), "the number of rows received", plan.received);
  RowsUnderWay under_way(group_, next_, compute_, overlapped);
  under_way.sent_ = Buffer(compute_, rows.shape, rows.dtype);
  compute_.sum_rows(rows, plan.sorted_to, Tensor(), under_way.sent_);
  Exchange(under_way, plan.receive_counts, plan.send_counts);
  return under_way;
}

Buffer ExpertExchange::receive_back(RowsUnderWay rows) {
  if (rows.group_.get_deleter().overlapped) join_communication(compute_, {&group_});
  static_cast<void>(rows.group_.release());
  return std::move(rows.arrived_);
}

Buffer ExpertExchange::receive(const ExchangePlan& plan, RowsUnderWay rows) {
  const Buffer arrived = receive_back(std::move(rows));
  Buffer sorted(compute_, arrived.tensor().shape, arrived.tensor().dtype);
  compute_.sum_rows(arrived, plan.arrived_at, Tensor(), sorted);
  return sorted;
}

}  // namespace tutti::parallel
