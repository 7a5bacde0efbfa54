// Counts what dispatch and combine send, and compares it with the routings.
#include <algorithm>

#include "parallel/expert/token_dispatcher_testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/token_dispatcher.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

TEST(TokenDispatcherBytes, SendsARowAChoiceAndNoCountsAgain) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    constexpr std::size_t kTopk = 4, kRow = kHidden * sizeof(float);
    const auto me = static_cast<std::size_t>(self.rank());
    // Rows from a rank to another, by the routings.
    std::vector<std::vector<std::size_t>> rows(4, std::vector<std::size_t>(4));
    std::vector<Batch> batches;
    for (std::size_t rank = 0; rank < 4; ++rank) {
      batches.emplace_back(compute, rank, kTopk, Load::random);
      for (const auto expert : batches[rank].routing.topk_indices) {
        ++rows[rank][static_cast<std::size_t>(expert) / (kExperts / 4)];
      }
    }
    std::size_t sent = 0, received = 0;
    for (std::size_t other = 0; other < 4; ++other) {
      if (other == me) continue;
      sent += rows[me][other];
      received += rows[other][me];
    }
    Batch& batch = batches[me];
    MoEAlltoAllTokenDispatcher dispatcher(group, compute,
                                          {.num_experts = kExperts, .topk = kTopk, .hidden_size = kHidden});
    BytesOf bytes(group);
    const auto handle = dispatcher.get_dispatch_layout(batch.routing);
    EXPECT_EQ(bytes.since(), 3 * (kExperts / 4) * sizeof(std::int32_t));
    for (int again = 0; again < 2; ++again) {
      const Buffer input = dispatcher.dispatch(batch.input(), handle), output(compute, {batch.count, kHidden});
      EXPECT_EQ(bytes.since(), sent * kRow);
      const auto combined = dispatcher.combine(input, batch.routing.topk_weights, handle, output);
      EXPECT_EQ(bytes.since(), received * kRow);
      const Buffer grad_weights(compute, {batch.count, kTopk});
      const Buffer grad_rows = dispatcher.combine_backward(batch.grad(), combined, handle, grad_weights);
      EXPECT_EQ(bytes.since(), sent * kRow);
      dispatcher.dispatch_backward(grad_rows, handle, output);
      EXPECT_EQ(bytes.since(), received * kRow);
    }
    self.Meet();
  });
}

TEST(TokenDispatcherBytes, SendsATokenOnceToAHostOverRails) {
  const auto body = [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    constexpr std::size_t kTopk = 4, kRow = kHidden * sizeof(float), kChoices = kTopk * sizeof(float);
    const int me = self.rank(), host = me / 2, facing = (me + 2) % 4;
    RailGroups rails(group, group, 2);
    // Tokens of `from` with an expert on the other host, and their choices there.
    std::size_t choices = 0;
    const auto copies = [&](int from) {
      const Batch batch(compute, static_cast<std::size_t>(from), kTopk, Load::random);
      std::size_t tokens = 0;
      for (std::size_t token = 0; token < batch.count; ++token) {
        const auto there = std::count_if(&batch.routing.topk_indices[token * kTopk],
                                         &batch.routing.topk_indices[token * kTopk] + kTopk, [&](std::int32_t expert) {
                                           return static_cast<std::size_t>(expert) / (kExperts / 2) !=
                                                  static_cast<std::size_t>(from / 2);
                                         });
        tokens += there > 0 ? 1 : 0;
        choices += static_cast<std::size_t>(there);
      }
      return tokens;
    };
    const std::size_t received = copies(facing);
    choices = 0;
    const std::size_t sent = copies(me);
    EXPECT_LT(sent, choices);  // which a flat dispatch sends to the other host
    EXPECT_EQ(rails.rail.ranks(), (std::vector{host == 0 ? me : facing, host == 0 ? facing : me}));

    Batch batch(compute, static_cast<std::size_t>(me), kTopk, Load::random);
    MoEAlltoAllTokenDispatcher dispatcher(group, rails, compute,
                                          {.num_experts = kExperts, .topk = kTopk, .hidden_size = kHidden});
    BytesOf bytes(rails.rail), inside(rails.node);
    const auto handle = dispatcher.get_dispatch_layout(batch.routing);
    EXPECT_EQ(bytes.since(), sizeof(std::int32_t) + sent * kChoices);
    EXPECT_EQ(inside.since(), 2 * (kExperts / 4) * sizeof(std::int32_t));
    const Buffer input = dispatcher.dispatch(batch.input(), handle), output(compute, {batch.count, kHidden});
    EXPECT_EQ(bytes.since(), sent * kRow);
    const auto combined = dispatcher.combine(input, batch.routing.topk_weights, handle, output);
    EXPECT_EQ(bytes.since(), sent * kChoices + received * kRow);
    const Buffer grad_weights(compute, {batch.count, kTopk});
    const Buffer grad_rows = dispatcher.combine_backward(batch.grad(), combined, handle, grad_weights);
    EXPECT_EQ(bytes.since(), sent * kRow + received * kChoices);
    dispatcher.dispatch_backward(grad_rows, handle, output);
    EXPECT_EQ(bytes.since(), received * kRow);
    self.Meet();
  };
  RunRanks(4, body, {.environment = {{"TUTTI_VIRTUAL_HOSTS", "2"}}});
}

}  // namespace
}  // namespace tutti::parallel
