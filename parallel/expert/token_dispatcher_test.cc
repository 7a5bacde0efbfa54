// Dispatch and combine over ranks against loops over all ranks' tokens: outputs and every gradient.
#include "tutti/parallel/token_dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "parallel/expert/token_dispatcher_testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/index_range.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

// An expert: y = (e + 1) x + x^2, and its derivative.
float Expert(std::size_t expert, float x) { return static_cast<float>(expert + 1) * x + x * x; }
float ExpertSlope(std::size_t expert, float x) { return static_cast<float>(expert + 1) + 2 * x; }

// All results of a rank.
struct Seen {
  std::vector<float> rows, output, grad_rows, grad_tokens, grad_weights;
  std::vector<std::size_t> tokens_per_expert;
  std::int64_t dropped = 0;
  bool operator==(const Seen&) const = default;
};

// The same by loops over all ranks' tokens.
Seen Reference(std::vector<Batch>& batches, std::size_t me, std::size_t topk, double capacity_factor) {
  Seen seen;
  const auto experts = part_of(kExperts, me, batches.size());
  const std::size_t first = experts.begin, local = experts.size();
  std::vector<std::vector<float>> rows(local), grad_rows(local);
  for (std::size_t rank = 0; rank < batches.size(); ++rank) {
    auto& batch = batches[rank];
    const auto capacity =
        capacity_factor == 0
            ? batch.count * topk
            : static_cast<std::size_t>(std::ceil(capacity_factor * static_cast<double>(batch.count * topk) / kExperts));
    std::vector<std::size_t> taken(kExperts);
    std::vector<float> output(batch.count * kHidden), grad_tokens(output), grad_weights(batch.count * topk);
    std::int64_t dropped = 0;
    for (std::size_t choice = 0; choice < batch.count * topk; ++choice) {
      const auto expert = static_cast<std::size_t>(batch.routing.topk_indices[choice]);
      if (taken[expert]++ >= capacity) {
        ++dropped;
        continue;
      }
      const float weight = batch.routing.topk_weights.tensor().floats()[choice];
      for (std::size_t c = 0; c < kHidden; ++c) {
        const std::size_t at = choice / topk * kHidden + c;
        const float x = batch.tokens[at], grad = weight * batch.grad_output[at];
        output[at] += weight * Expert(expert, x);
        grad_weights[choice] += batch.grad_output[at] * Expert(expert, x);
        grad_tokens[at] += grad * ExpertSlope(expert, x);
        if (expert < first || expert >= first + local) continue;
        rows[expert - first].push_back(x);
        grad_rows[expert - first].push_back(grad);
      }
    }
    if (rank == me) {
      seen.output = output;
      seen.grad_tokens = grad_tokens;
      seen.grad_weights = grad_weights;
      seen.dropped = dropped;
    }
  }
  for (std::size_t expert = 0; expert < local; ++expert) {
    seen.tokens_per_expert.push_back(rows[expert].size() / kHidden);
    seen.rows.insert(seen.rows.end(), rows[expert].begin(), rows[expert].end());
    seen.grad_rows.insert(seen.grad_rows.end(), grad_rows[expert].begin(), grad_rows[expert].end());
  }
  return seen;
}

// Calls function(expert, place) for each number of the rows.
void ForEachNumber(const DispatchHandle& handle, std::size_t first,
                   const std::function<void(std::size_t, std::size_t)>& function) {
  std::size_t place = 0;
  for (std::size_t expert = 0; expert < handle.tokens_per_expert().size(); ++expert) {
    for (std::size_t i = 0; i < handle.tokens_per_expert()[expert] * kHidden; ++i) {
      function(first + expert, place++);
    }
  }
}

// What a rank brings to a layer: all of its tokens, or some.
struct Brought {
  Tensor tokens, weights, grad;

  explicit Brought(Batch& batch)
      : tokens(batch.input()), weights(batch.routing.topk_weights.tensor()), grad(batch.grad()) {}
  Brought part(std::size_t first, std::size_t count) const {
    auto some = *this;
    for (auto* const tensor : {&some.tokens, &some.weights, &some.grad}) {
      *tensor = Tensor(tensor->floats() + first * tensor->columns(), {count, tensor->columns()});
    }
    return some;
  }
};

enum class Exchanges { whole, begun_and_ended };

Seen RunLayer(MoEAlltoAllTokenDispatcher& dispatcher, Compute& compute, const Brought& brought,
              const DispatchHandle& handle, std::size_t first, Exchanges exchanges = Exchanges::whole) {
  const bool apart = exchanges == Exchanges::begun_and_ended;
  // Begins an exchange of a copy of `given`. Before the end comes other work, more of it on higher ranks, in memory that
  // was given or was free.
  const auto begun = [&](const Tensor& given, const auto& begin) {
    const Buffer copy(compute, given.shape);
    compute.copy(given, copy, false);
    RowsUnderWay rows = begin(copy.tensor());
    const Buffer other(compute, given.shape), matrix(compute, {kHidden, kHidden});
    for (const Buffer* const each : {&copy, &other}) std::fill_n(each->tensor().floats(), given.count(), NAN);
    compute.zero(matrix);
    for (std::size_t i = 0; i < first; ++i) {
      compute.matmul(Transposed::no, matrix, Transposed::no, matrix, matrix, true);
    }
    return rows;
  };
  const auto& [tokens, weights, grad] = brought;
  const Buffer rows =
      apart ? dispatcher.dispatch_end(
                  begun(tokens, [&](const Tensor& x) { return dispatcher.dispatch_begin(x, handle); }), handle)
            : dispatcher.dispatch(tokens, handle);
  const Buffer expert_output(compute, rows.tensor().shape), output(compute, tokens.shape);
  ForEachNumber(handle, first, [&](std::size_t expert, std::size_t i) {
    expert_output.tensor().floats()[i] = Expert(expert, rows.tensor().floats()[i]);
  });
  const auto combined =
      apart ? dispatcher.combine_end(
                  begun(expert_output, [&](const Tensor& x) { return dispatcher.combine_begin(x, weights, handle); }),
                  weights, handle, output)
            : dispatcher.combine(expert_output, weights, handle, output);
  const Buffer grad_weights(compute, weights.shape), grad_tokens(compute, tokens.shape);
  const Buffer grad_rows = apart ? dispatcher.dispatch_end(begun(grad,
                                                                 [&](const Tensor& x) {
                                                                   return dispatcher.combine_backward_begin(
                                                                       x, combined, handle, grad_weights);
                                                                 }),
                                                           handle)
                                 : dispatcher.combine_backward(grad, combined, handle, grad_weights);
  const Buffer grad_input(compute, rows.tensor().shape);
  ForEachNumber(handle, first, [&](std::size_t expert, std::size_t i) {
    grad_input.tensor().floats()[i] = grad_rows.tensor().floats()[i] * ExpertSlope(expert, rows.tensor().floats()[i]);
  });
  if (apart) {
    dispatcher.dispatch_backward_end(
        begun(grad_input, [&](const Tensor& x) { return dispatcher.dispatch_backward_begin(x, handle); }), handle,
        grad_tokens);
  } else {
    dispatcher.dispatch_backward(grad_input, handle, grad_tokens);
  }
  return {FloatsOf(rows),         FloatsOf(output),           FloatsOf(grad_rows), FloatsOf(grad_tokens),
          FloatsOf(grad_weights), handle.tokens_per_expert(), handle.dropped};
}

void ExpectNear(const std::vector<float>& got, const std::vector<float>& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-4) << what << " at " << i;
}

class Dispatcher : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Over, Dispatcher, ::testing::Values(1, 2, 3, 4, 5, 8),
                         [](const auto& info) { return fmt::format("{}_ranks", info.param); });

TEST_P(Dispatcher, BringsTokensToExpertsAndBack) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    const auto size = static_cast<std::size_t>(self.size()), me = static_cast<std::size_t>(self.rank());
    for (const std::size_t topk : {1, 2, 4}) {
      for (const double factor : {0.0, 1.0, 0.4}) {
        for (const auto load : {Load::random, Load::all_to_the_first, Load::some_ranks_without_tokens}) {
          SCOPED_TRACE(fmt::format("topk {} capacity_factor {} load {}", topk, factor, static_cast<int>(load)));
          std::vector<Batch> batches;
          for (std::size_t rank = 0; rank < size; ++rank) batches.emplace_back(compute, rank, topk, load);
          const auto wanted = Reference(batches, me, topk, factor);
          MoEAlltoAllTokenDispatcher dispatcher(
              group, compute,
              {.num_experts = kExperts, .topk = topk, .hidden_size = kHidden, .capacity_factor = factor});
          const auto handle = dispatcher.get_dispatch_layout(batches[me].routing);
          const std::size_t first = part_of(kExperts, me, size).begin;
          const auto got = RunLayer(dispatcher, compute, Brought(batches[me]), handle, first);
          EXPECT_EQ(got.tokens_per_expert, wanted.tokens_per_expert);
          EXPECT_EQ(got.dropped, wanted.dropped);
          EXPECT_EQ(got.rows, wanted.rows);  // in this order
          ExpectNear(got.output, wanted.output, "output");
          ExpectNear(got.grad_rows, wanted.grad_rows, "grad_rows");
          ExpectNear(got.grad_tokens, wanted.grad_tokens, "grad_tokens");
          ExpectNear(got.grad_weights, wanted.grad_weights, "grad_weights");
          // The same handle once more, and in two parts, to the bit.
          EXPECT_EQ(RunLayer(dispatcher, compute, Brought(batches[me]), handle, first), got);
          EXPECT_EQ(RunLayer(dispatcher, compute, Brought(batches[me]), handle, first, Exchanges::begun_and_ended),
                    got);
        }
      }
    }
    self.Meet();
  });
}

TEST_P(Dispatcher, OverRailsIsFlatToTheBit) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    const auto size = static_cast<std::size_t>(self.size()), me = static_cast<std::size_t>(self.rank());
    for (std::size_t per_host = 1; per_host <= size; ++per_host) {
      if (size % per_host != 0) continue;
      RailGroups rails(group, group, per_host);
      for (const std::size_t topk : {1, 2, 4}) {
        for (const double factor : {0.0, 0.4}) {
          for (const auto load : {Load::random, Load::all_to_the_first, Load::some_ranks_without_tokens}) {
            SCOPED_TRACE(fmt::format("per_host {} topk {} capacity_factor {} load {}", per_host, topk, factor,
                                     static_cast<int>(load)));
            Batch batch(compute, me, topk, load);
            const TokenDispatcherConfig config{.num_experts = kExperts,
                                               .topk = topk,
                                               .hidden_size = kHidden,
                                               .capacity_factor = factor,
                                               .ranks_per_host = per_host};
            MoEAlltoAllTokenDispatcher flat(group, compute, config), two_level(group, rails, compute, config);
            const auto one = flat.get_dispatch_layout(batch.routing),
                       two = two_level.get_dispatch_layout(batch.routing);
            const std::size_t first = part_of(kExperts, me, size).begin;
            const auto wanted = RunLayer(flat, compute, Brought(batch), one, first);
            EXPECT_EQ(RunLayer(two_level, compute, Brought(batch), two, first), wanted);
            EXPECT_EQ(RunLayer(two_level, compute, Brought(batch), two, first, Exchanges::begun_and_ended), wanted);
          }
        }
      }
    }
    self.Meet();
  });
}

// Parts of a rank's tokens: the same results, gradients and dropped choices as of all tokens at once, to the bit; and
// over rails the same as flat.
TEST_P(Dispatcher, PartsAreTheWhole) {
  RunRanks(GetParam(), [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    const auto size = static_cast<std::size_t>(self.size()), me = static_cast<std::size_t>(self.rank());
    const std::size_t per_host = size % 2 == 0 ? 2 : 1;
    RailGroups rails(group, group, per_host);
    const TokenDispatcherConfig config{.num_experts = kExperts,
                                       .topk = 2,
                                       .hidden_size = kHidden,
                                       .capacity_factor = 0.5,
                                       .ranks_per_host = per_host,
                                       .parts = 3};
    MoEAlltoAllTokenDispatcher flat(group, compute, config), two_level(group, rails, compute, config);
    const std::size_t first = part_of(kExperts, me, size).begin;
    for (const auto load : {Load::random, Load::all_to_the_first, Load::some_ranks_without_tokens}) {
      SCOPED_TRACE(static_cast<int>(load));
      Batch batch(compute, me, 2, load);
      const Brought all(batch);
      const auto wanted = RunLayer(flat, compute, all, flat.get_dispatch_layout(batch.routing), first);
      const auto parts = flat.get_dispatch_layouts(batch.routing),
                 over_rails = two_level.get_dispatch_layouts(batch.routing);
      ASSERT_EQ(parts.size(), config.parts);
      // Experts see the parts one after the other, so their rows come in another order.
      Seen got;
      got.rows = wanted.rows, got.grad_rows = wanted.grad_rows;
      got.tokens_per_expert.resize(wanted.tokens_per_expert.size());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto range = part_of(batch.count, i, config.parts);
        EXPECT_EQ(parts[i].tokens, range.size());
        const auto some = all.part(range.begin, range.size());
        const auto part = RunLayer(flat, compute, some, parts[i], first, Exchanges::begun_and_ended);
        EXPECT_EQ(RunLayer(two_level, compute, some, over_rails[i], first, Exchanges::begun_and_ended), part);
        const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        append(got.output, part.output);
        append(got.grad_tokens, part.grad_tokens);
        append(got.grad_weights, part.grad_weights);
        std::ranges::transform(got.tokens_per_expert, part.tokens_per_expert, got.tokens_per_expert.begin(),
                               std::plus());
        got.dropped += part.dropped;
      }
      EXPECT_EQ(got, wanted);
    }
    self.Meet();
  });
}

TEST(TokenDispatcher, WhoLeavesAnExchangeMidwayIsNamedToTheOthers) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup world(comm), group(world, "experts", {0, 1, 2}, TUTTI_CONFIG_INITIALIZER);
    HostCompute compute;
    MoEAlltoAllTokenDispatcher dispatcher(group, compute, {.num_experts = kExperts, .topk = 2, .hidden_size = kHidden});
    Batch batch(compute, static_cast<std::size_t>(self.rank()), 2, Load::random);
    const auto handle = dispatcher.get_dispatch_layout(batch.routing);
    auto rows = std::make_unique<RowsUnderWay>(dispatcher.dispatch_begin(batch.input(), handle));
    if (self.rank() == 1) {
      rows.reset();
    } else {
      EXPECT_TRUE(Throws(
          [&] {
            dispatcher.dispatch_end(std::move(*rows), handle);
            dispatcher.dispatch(batch.input(), handle);
          },
          tuttiRemoteError, {"rank 1", "revoked"}));
    }
    self.Meet();
  });
}

// Over rails, the end of a combine has exchanges of its own, in which the other hosts would wait.
TEST(TokenDispatcher, WhoLeavesATwoLevelExchangeMidwayIsNamedToTheOthers) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup world(comm), group(world, "experts", {0, 1, 2, 3}, TUTTI_CONFIG_INITIALIZER);
    RailGroups rails(world, group, 2);
    HostCompute compute;
    MoEAlltoAllTokenDispatcher dispatcher(group, rails, compute,
                                          {.num_experts = kExperts, .topk = 2, .hidden_size = kHidden});
    Batch batch(compute, static_cast<std::size_t>(self.rank()), 2, Load::random);
    const auto handle = dispatcher.get_dispatch_layout(batch.routing);
    const auto rows = dispatcher.dispatch(batch.input(), handle);
    const Buffer output(compute, batch.input().shape);
    auto returning = std::make_unique<RowsUnderWay>(dispatcher.combine_begin(rows, batch.routing.topk_weights, handle));
    if (self.rank() == 1) {
      returning.reset();
    } else {
      EXPECT_THROW(
          {
            dispatcher.combine_end(std::move(*returning), batch.routing.topk_weights, handle, output);
            dispatcher.dispatch(batch.input(), handle);
          },
          Error);
      rails.node.revoke();
      rails.rail.revoke();
    }
    self.Meet();
  });
}

// Shows the order of additions: a large number absorbs the small ones that come before its opposite.
TEST(TokenDispatcher, AddsByHostAndThenByHosts) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    constexpr std::array<float, 4> kOutputs{1e8F, 1, -1e8F, 1};  // by expert
    Routing routing{.num_experts = 4,
                    .topk = 4,
                    .topk_indices = {3, 2, 1, 0},
                    .topk_weights = Buffer(compute, {1, 4}),
                    .probabilities = {}};
    std::fill_n(routing.topk_weights.tensor().floats(), 4, 1.0F);
    const auto sum = [&](MoEAlltoAllTokenDispatcher& dispatcher) {
      const auto handle = dispatcher.get_dispatch_layout(routing);
      const Buffer rows(compute, {handle.received(), 1}), output(compute, {1, 1});
      std::fill_n(rows.tensor().floats(), handle.received(), kOutputs.at(static_cast<std::size_t>(self.rank())));
      dispatcher.combine(rows, routing.topk_weights, handle, output);
      return *output.tensor().floats();
    };
    TokenDispatcherConfig config{.num_experts = 4, .topk = 4, .hidden_size = 1};
    MoEAlltoAllTokenDispatcher one_host(group, compute, config);
    EXPECT_EQ(sum(one_host), ((1 + -1e8F) + 1) + 1e8F);
    config.ranks_per_host = 1;
    RailGroups rails(group, group, 1);
    MoEAlltoAllTokenDispatcher flat(group, compute, config), two_level(group, rails, compute, config);
    EXPECT_EQ(sum(flat), ((1e8F + 1) + -1e8F) + 1);
    EXPECT_EQ(sum(two_level), ((1e8F + 1) + -1e8F) + 1);
    EXPECT_NE(sum(one_host), sum(flat));
    self.Meet();
  });
}

TEST(TokenDispatcher, NamesWhatDoesNotFitOnEveryRank) {
  RunRanks(4, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup group(comm);
    HostCompute compute;
    const auto refused = [&](const TokenDispatcherConfig& config, tuttiResult_t code,
                             const std::vector<std::string>& words) {
      EXPECT_TRUE(Throws([&] { MoEAlltoAllTokenDispatcher(group, compute, config); }, code, words));
    };
    refused({.num_experts = 3, .topk = 1, .hidden_size = 8}, tuttiInvalidArgument,
            {"num_experts (3)", "the ranks of group \"world\" (4)"});
    refused({.num_experts = 8, .topk = 9, .hidden_size = 8}, tuttiInvalidArgument, {"topk is 9", "num_experts is 8"});
    refused({.num_experts = 8, .topk = 1, .hidden_size = 0}, tuttiInvalidArgument, {"hidden_size is 0"});
    refused({.num_experts = 8, .topk = 1, .hidden_size = 8, .capacity_factor = -1}, tuttiInvalidArgument,
            {"capacity_factor is -1"});
    refused({.num_experts = 8, .topk = 1, .hidden_size = 8, .capacity_factor = NAN}, tuttiInvalidArgument,
            {"capacity_factor is nan"});
    refused({.num_experts = 8, .topk = 1, .hidden_size = 8, .ranks_per_host = 3}, tuttiInvalidArgument,
            {"expert_model_parallel_size (4)", "ranks_per_host (3)"});
    EXPECT_TRUE(Throws([&] { RailGroups(group, group, 3); }, tuttiInvalidArgument, {"ranks_per_host (3)"}));
    RailGroups pairs(group, group, 2);
    EXPECT_TRUE(Throws(
        [&] {
          MoEAlltoAllTokenDispatcher(group, pairs, compute,
                                     {.num_experts = 8, .topk = 1, .hidden_size = 8, .ranks_per_host = 4});
        },
        tuttiInvalidArgument, {"the size of the node's group is 2", "ranks_per_host is 4"}));
    // One rank gets another value: all ranks report it.
    refused({.num_experts = 8, .topk = 1, .hidden_size = self.rank() == 2 ? 16u : 8u}, tuttiInvalidUsage,
            {"hidden_size is 16 on rank 2", "8 on rank 0"});
    refused({.num_experts = self.rank() == 0 ? 8u : 3u, .topk = 1, .hidden_size = 8}, tuttiInvalidUsage,
            {"num_experts is 3 on rank 1", "8 on rank 0"});

    // The group is as it was.
    MoEAlltoAllTokenDispatcher dispatcher(group, compute, {.num_experts = kExperts, .topk = 2, .hidden_size = kHidden});
    Batch batch(compute, 0, 2, Load::random);
    const auto handle = dispatcher.get_dispatch_layout(batch.routing);
    BytesOf bytes(group);
    EXPECT_TRUE(Throws(
        [&] {
          dispatcher.dispatch(Tensor(batch.tokens.data(), {batch.count - 1, kHidden}), handle);
        },
        tuttiInvalidArgument, {"tokens has shape [6, 5]", "[7, 5]"}));
    batch.routing.topk_indices[3] = kExperts;
    EXPECT_TRUE(Throws([&] { dispatcher.get_dispatch_layout(batch.routing); }, tuttiInvalidArgument,
                       {"token 1 is routed to expert 12"}));
    batch.routing.topk = 1;
    EXPECT_TRUE(Throws([&] { dispatcher.get_dispatch_layout(batch.routing); }, tuttiInvalidArgument,
                       {"topk is 1", "the dispatcher's is 2"}));
    EXPECT_EQ(bytes.since(), 0u);
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
