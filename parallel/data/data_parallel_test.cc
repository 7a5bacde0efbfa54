#include "tutti/parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <numeric>
#include <random>

#include "parallel/testing.h"
#include "testing/ranks.h"
#include "tutti/parallel/host_compute.h"

namespace tutti::parallel {
namespace {

using tutti::testing::Rank;
using tutti::testing::RunRanks;

// Some parameters of unequal sizes, in the application's memory.
struct Model {
  explicit Model(const std::vector<std::size_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) memory.emplace_back(sizes[i]);
  }
  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      all.push_back({fmt::format("layer{}.weight", i), Tensor(memory[i].data(), {memory[i].size()})});
    }
    return all;
  }
  std::vector<std::vector<float>> memory;
};

const std::vector<std::size_t> kSizes{5, 300, 17, 1000, 1, 64, 250};

void Fill(const Tensor& grad, float value) { std::fill_n(grad.floats(), grad.count(), value); }
void Add(const Tensor& grad, float value) {
  std::for_each_n(grad.floats(), grad.count(), [value](float& each) { each += value; });
}
void ExpectAll(const Tensor& grad, float value, std::size_t parameter) {
  for (std::size_t i = 0; i < grad.count(); ++i) {
    ASSERT_FLOAT_EQ(grad.floats()[i], value) << "parameter " << parameter << " at " << i;
  }
}

struct Side {
  Side(Rank& self, Model& model,
       const DistributedDataParallelConfig& config = {.bucket_bytes = 2000, .first_bucket_bytes = 500})
      : comm(self.Join()), group(comm), ddp(group, compute, model.parameters(), config) {}

  tutti::testing::Comm comm;
  HostCompute compute;
  ProcessGroup group;
  DistributedDataParallel ddp;
};

TEST(DistributedDataParallel, BucketsAreInReverseOrderAndBounded) {
  RunRanks(1, [](Rank& self) {
    Model model(kSizes);
    Side side(self, model);
    std::vector<std::size_t> order;
    for (const auto& bucket : side.ddp.buckets()) {
      const auto bytes = bucket.gradients.tensor().bytes();
      EXPECT_TRUE(bytes <= (order.empty() ? 500u : 2000u) || bucket.parameters.size() == 1) << bytes;
      order.insert(order.end(), bucket.parameters.begin(), bucket.parameters.end());
    }
    EXPECT_EQ(order, (std::vector<std::size_t>{6, 5, 4, 3, 2, 1, 0}));
    EXPECT_GT(side.ddp.buckets().size(), 3u);
  });
}

// Gradients may become ready in any order, a different one on every rank.
TEST(DistributedDataParallel, AveragesInAnyOrder) {
  for (const int ranks : {1, 2, 4}) {
    RunRanks(ranks, [](Rank& self) {
      Model model(kSizes);
      Side side(self, model);
      for (unsigned pass = 0; pass < 5; ++pass) {
        side.ddp.zero_grad();
        std::vector<std::size_t> order(kSizes.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::ranges::shuffle(order, std::mt19937(pass * 10 + static_cast<unsigned>(self.rank())));
        for (const auto i : order) {
          Fill(side.ddp.grad(i), static_cast<float>(self.rank() + 1) * static_cast<float>(i + pass + 1));
          side.ddp.mark_ready(i);
        }
        side.ddp.finish_gradients();
        const float average = static_cast<float>(self.size() + 1) / 2;
        for (std::size_t i = 0; i < kSizes.size(); ++i) {
          ExpectAll(side.ddp.grad(i), average * static_cast<float>(i + pass + 1), i);
        }
      }
      self.Meet();
    });
  }
}

// As in PyTorch, where nobody zeroes: the average of the averages so far is the same again.
// Whatever the sum is divided by.
TEST(DistributedDataParallel, APassThatKeepsGradientsAddsToTheAverages) {
  for (const int ranks : {1, 2, 3, -2}) {
    const int divisor = ranks < 0 ? 4 : 0;
    RunRanks(std::abs(ranks), [divisor](Rank& self) {
      Model model(kSizes);
      Side side(self, model, {.gradient_divisor = divisor});
      const float share = divisor == 0 ? 1 : static_cast<float>(self.size()) / static_cast<float>(divisor);
      for (int pass = 1; pass <= 3; ++pass) {
        side.ddp.keep_gradients();
        for (std::size_t i = kSizes.size(); i-- > 0;) {
          Add(side.ddp.grad(i), static_cast<float>(2 * self.rank()));
          if (pass != 2) side.ddp.mark_ready(i);  // the second pass sends all at its end
        }
        side.ddp.finish_gradients();
        for (std::size_t i = 0; i < kSizes.size(); ++i) {
          ExpectAll(side.ddp.grad(i), share * static_cast<float>(pass * (self.size() - 1)), i);
        }
      }
      self.Meet();
    });
  }
}

TEST(DistributedDataParallel, AnotherPassNeedsZerosOrKeptGradients) {
  RunRanks(2, [](Rank& self) {
    Model model(kSizes);
    Side side(self, model);
    for (std::size_t i = 0; i < kSizes.size(); ++i) side.ddp.mark_ready(i);
    side.ddp.finish_gradients();
    EXPECT_THROW(side.ddp.mark_ready(0), Error);
    self.Meet();
  });
}

TEST(DistributedDataParallel, SendsBucketsInOrderAsSoonAsTheyAreReady) {
  RunRanks(2, [](Rank& self) {
    Model model(kSizes);
    Side side(self, model);
    const auto& buckets = side.ddp.buckets();
    for (int pass = 0; pass < 2; ++pass) {
      side.ddp.zero_grad();
      EXPECT_EQ(side.ddp.buckets_sent(), 0u);
      // The second bucket is ready before the first, and waits for it.
      for (const std::size_t bucket : {1u, 0u, 2u}) {
        for (const auto i : buckets[bucket].parameters) {
          EXPECT_EQ(side.ddp.buckets_sent(), bucket == 2 ? 2u : 0u);
          side.ddp.mark_ready(i);
        }
      }
      EXPECT_EQ(side.ddp.buckets_sent(), 3u);
      side.ddp.finish_gradients();
      EXPECT_EQ(side.ddp.buckets_sent(), buckets.size());
    }
    self.Meet();
  });
}

TEST(DistributedDataParallel, AccumulatesWithoutSending) {
  RunRanks(2, [](Rank& self) {
    Model model(kSizes);
    Side side(self, model);
    side.ddp.zero_grad();
    {
      const auto guard = side.ddp.no_sync();
      const auto before = side.group.bytes_sent();
      for (int batch = 0; batch < 3; ++batch) {
        for (std::size_t i = 0; i < kSizes.size(); ++i) {
          Add(side.ddp.grad(i), static_cast<float>(self.rank()));
          side.ddp.mark_ready(i);
        }
      }
      EXPECT_EQ(side.group.bytes_sent(), before);
      EXPECT_TRUE(Throws([&] { side.ddp.finish_gradients(); }, tuttiInvalidUsage, {"no_sync"}));
    }
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      Add(side.ddp.grad(i), static_cast<float>(self.rank()));
      side.ddp.mark_ready(i);
    }
    side.ddp.finish_gradients();
    for (std::size_t i = 0; i < kSizes.size(); ++i) ExpectAll(side.ddp.grad(i), 2, i);
    self.Meet();
  });
}

TEST(DistributedDataParallel, FindsWhatNobodyUsed) {
  RunRanks(3, [](Rank& self) {
    Model model(kSizes);
    Side side(self, model, {.bucket_bytes = 2000, .first_bucket_bytes = 500, .find_unused_parameters = true});
    for (int pass = 0; pass < 2; ++pass) {
      side.ddp.zero_grad();
      // Only rank 1 uses 2; no rank uses 4.
      for (std::size_t i = 0; i < kSizes.size(); ++i) {
        if (i == 4 || (i == 2 && self.rank() != 1)) continue;
        Fill(side.ddp.grad(i), 3);
        side.ddp.mark_ready(i);
      }
      side.ddp.finish_gradients();
      for (std::size_t i = 0; i < kSizes.size(); ++i) {
        EXPECT_EQ(side.ddp.unused(i), i == 4) << i;
        ExpectAll(side.ddp.grad(i), i == 4 ? 0.0F : i == 2 ? 1.0F : 3.0F, i);
      }
    }
    self.Meet();
  });
}

TEST(DistributedDataParallel, DividesByWhatItIsTold) {
  for (const int ranks : {1, 2}) {
    RunRanks(ranks, [](Rank& self) {
      Model model(kSizes);
      Side side(self, model, {.gradient_divisor = 4});
      for (std::size_t i = 0; i < kSizes.size(); ++i) {
        Fill(side.ddp.grad(i), 8);
        side.ddp.mark_ready(i);
      }
      side.ddp.finish_gradients();
      for (std::size_t i = 0; i < kSizes.size(); ++i)
        ExpectAll(side.ddp.grad(i), static_cast<float>(2 * self.size()), i);
      self.Meet();
    });
  }
}

TEST(DistributedDataParallel, BroadcastsParameters) {
  RunRanks(3, [](Rank& self) {
    Model model(kSizes);
    for (auto& each : model.memory) std::ranges::fill(each, static_cast<float>(self.rank() + 7));
    Side side(self, model);
    side.ddp.broadcast_parameters();
    for (const auto& each : model.memory) EXPECT_EQ(std::ranges::count(each, 7.0F), std::ssize(each));
    self.Meet();
  });
}

TEST(DistributedDataParallel, SendsTheGradientsOnce) {
  RunRanks(4, [](Rank& self) {
    Model model({1024, 3072});  // blocks of whole cache lines
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.algorithm = "ring";
    const auto comm = self.Join();
    ProcessGroup world(comm), group(world, "dp", {0, 1, 2, 3}, config);
    HostCompute compute;
    DistributedDataParallel ddp(group, compute, model.parameters());
    ddp.mark_ready(0);
    ddp.finish_gradients();
    EXPECT_EQ(group.bytes_sent(), 2 * 3 * 4096 * sizeof(float) / 4);
    self.Meet();
  });
}

TEST(DistributedDataParallel, TellsWhoDiedWhileBucketsAreOnTheirWay) {
  const auto body = [](Rank& self) {
    Model model(kSizes);
    Side side(self, model);
    if (self.rank() == 2) std::raise(SIGKILL);
    EXPECT_TRUE(Throws(
        [&] {
          for (std::size_t i = 0; i < kSizes.size(); ++i) side.ddp.mark_ready(i);
          side.ddp.finish_gradients();
        },
        tuttiRemoteError, {"rank 2", "died"}));
  };
  RunRanks(3, body, {.may_die = {2}});
}

TEST(DistributedDataParallel, NamesModelsThatDiffer) {
  RunRanks(3, [](Rank& self) {
    Model model(self.rank() == 2 ? std::vector<std::size_t>{5, 300} : std::vector<std::size_t>{5, 301});
    Side side(self, model);
    EXPECT_TRUE(Throws([&] { side.ddp.broadcast_parameters(); }, tuttiInvalidUsage,
                       {"rank 0", "\"layer1.weight\" float32 [301]", "rank 2", "\"layer1.weight\" float32 [300]"}));
    Model larger(std::vector<std::size_t>(static_cast<std::size_t>(self.rank() == 1 ? 3 : 2), 10));
    DistributedDataParallel other(side.group, side.compute, larger.parameters());
    EXPECT_TRUE(Throws([&] { other.broadcast_parameters(); }, tuttiInvalidUsage, {"has 2 parameters", "rank 1 has 3"}));
    self.Meet();
  });
}

TEST(DistributedDataParallel, RefusesMisuse) {
  RunRanks(1, [](Rank& self) {
    Model model({4, 4});
    Side side(self, model);
    side.ddp.mark_ready(1);
    EXPECT_TRUE(Throws([&] { side.ddp.mark_ready(1); }, tuttiInvalidUsage, {"\"layer1.weight\"", "twice"}));
    Model empty({4, 0});
    EXPECT_TRUE(Throws([&] { DistributedDataParallel(side.group, side.compute, empty.parameters()); },
                       tuttiInvalidArgument, {"\"layer1.weight\"", "[0]"}));
  });
}

}  // namespace
}  // namespace tutti::parallel
