// Sends rows to the ranks that hold their experts, and back: every form of a token dispatcher builds on it. The ranks
// that hold the experts get rows sorted by expert, so that one grouped matrix product computes them.
//
// Sources: Lepikhin et al. 2020, "GShard"; Gale et al. 2022, "MegaBlocks" (no row is dropped or padded); DeepSeek's
// DeepEP (a routing's plan is worked out once, and kept in a handle that any number of exchanges use).
//
// Rows may come in segments - by where they have been before - and
// arrive sorted by local expert, then segment, then source rank, then row, which does not depend on timing. A rank has
// the experts part_of(num_experts, rank, ranks).
//
// Thread-safety: one thread at a time; a plan is a value, and used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/parallel/compute.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

// This rank's part of a routing of `rows` rows.
struct TUTTI_API ExchangePlan {
  std::size_t rows = 0;                                  // of this rank
  std::size_t sent = 0, received = 0;                    // rows, including those that stay on the rank
  std::vector<std::size_t> send_counts, receive_counts;  // rows, by rank
  std::vector<std::size_t> tokens_per_expert;            // received, by local expert

  // In the form that Compute::sum_rows and dot_rows take.
  Buffer sent_row_of;  // [rows, topk]: the sent row of each choice
  Buffer home_row_of;  // [sent, 1]: the home row of each sent row
  Buffer choice_of;    // [sent, 1]: the choice, of rows * topk, of each sent row
  Buffer arrived_at;   // [received, 1]: the index in order of arrival of each sorted row
  Buffer sorted_to;    // [received, 1]: the inverse
};

// Rows between the begin of an exchange and its end. Who destroys it before the end has left the exchange midway: it
// waits for the messages, and then revokes the group's communicator, so that the others do not wait for the next ones.
class TUTTI_API RowsUnderWay {
 public:
  // Group and compute outlive this.
  // `next`: the group in which the others would wait for what follows the end; it is revoked, too. Null: none.
  RowsUnderWay(ProcessGroup& group, ProcessGroup* next, Compute& compute, bool overlapped)
      : group_(&group, Leave{next, &compute, overlapped}) {}
  RowsUnderWay(RowsUnderWay&&) = default;

 private:
  friend class ExpertExchange;
  struct Leave {
    ProcessGroup* next;
    Compute* compute;
    bool overlapped;
    void operator()(ProcessGroup* group) const noexcept;
  };

  Buffer sent_, arrived_;
  std::unique_ptr<ProcessGroup, Leave> group_;  // destroyed before the memory; null after the end
};

class TUTTI_API ExpertExchange {
 public:
  // `next`: as for RowsUnderWay.
  ExpertExchange(ProcessGroup& group, ProcessGroup* next, Compute& compute, std::size_t num_experts, std::size_t topk);

  // Collective. experts: [rows, topk], the group's or -1; segments: the number of rows in each, one segment after the
  // other, equally many segments on every rank.
  ExchangePlan plan(const std::vector<std::int32_t>& experts, const std::vector<std::size_t>& segments);

  // Both are collective and begin an exchange, on the Compute's communication stream if it is `overlapped`. Until its
  // end, nothing else is sent by the group or on that stream.
  // Sends rows [plan.rows, ..] to their experts, times weights [plan.rows, topk]; weights without data are ones.
  RowsUnderWay send(const ExchangePlan& plan, const Tensor& rows, const Tensor& weights, bool overlapped);
  // Sends the experts' rows [plan.received, ..] back.
  RowsUnderWay send_back(const ExchangePlan& plan, const Tensor& rows, bool overlapped);
  // Their ends: rows for the experts [plan.received, ..], and the rows that came back [plan.sent, ..].
  Buffer receive(const ExchangePlan& plan, RowsUnderWay rows);
  Buffer receive_back(RowsUnderWay rows);

 private:
  void Exchange(RowsUnderWay& rows, const std::vector<std::size_t>& send_counts,
                const std::vector<std::size_t>& receive_counts);

  ProcessGroup& group_;
  ProcessGroup* next_;
  Compute& compute_;
  std::size_t num_experts_, topk_;
};

// Exchanges rows [.., columns] by an all-to-all whose counts are rows.
TUTTI_API void all_to_all_rows(ProcessGroup& group, const Tensor& input, const std::vector<std::size_t>& send_rows,
                               const Tensor& output, const std::vector<std::size_t>& receive_rows,
                               tuttiStream_t stream);

}  // namespace tutti::parallel
