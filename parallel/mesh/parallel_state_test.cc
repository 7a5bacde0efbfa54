#include "tutti/parallel/parallel_state.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "parallel/testing.h"
#include "testing/ranks.h"

namespace tutti::parallel {
namespace {

using Groups = std::vector<std::vector<int>>;
using tutti::testing::Rank;
using tutti::testing::RunRanks;

// The example of Megatron-LM's own text for initialize_model_parallel: 16 GPUs, tensor 2, pipeline 4.
TEST(Layouts, OfMegatronsExample) {
  const auto layouts = layouts_of({.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4}, 16);
  EXPECT_EQ(layouts.dense.groups({"tp"}),
            (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(layouts.dense.groups({"dp"}),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(layouts.dense.groups({"pp"}), (Groups{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
  EXPECT_EQ(layouts.dense.groups({"tp", "pp"}), (Groups{{0, 1, 4, 5, 8, 9, 12, 13}, {2, 3, 6, 7, 10, 11, 14, 15}}));
}

// Its example of context parallelism: 16 GPUs, tensor 2, context 2, pipeline 2.
TEST(Layouts, OfContextParallelism) {
  const auto layouts =
      layouts_of({.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2, .context_parallel_size = 2}, 16);
  EXPECT_EQ(layouts.dense.groups({"cp"}).front(), (std::vector{0, 2}));
  EXPECT_EQ(layouts.dense.groups({"dp"}).front(), (std::vector{0, 4}));
  EXPECT_EQ(layouts.dense.groups({"dp", "cp"}).front(), (std::vector{0, 2, 4, 6}));
  EXPECT_EQ(layouts.dense.groups({"pp"}).front(), (std::vector{0, 8}));
}

// As Megatron-Core's hierarchical_context_parallel_sizes {2, 2}: neighbours first, and then across.
TEST(Layouts, OfUlyssesInsideAndARingAcross) {
  const ModelParallelSizes sizes{.tensor_model_parallel_size = 2, .context_parallel_size = 4, .ulysses_size = 2};
  const auto layouts = layouts_of(sizes, 16);
  EXPECT_EQ(layouts.dense.groups({"cp"}), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(layouts.context.groups({"ulysses"}),
            (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(layouts.context.groups({"ring"}),
            (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}, {8, 12}, {9, 13}, {10, 14}, {11, 15}}));
  EXPECT_EQ(layouts.context.groups({"ulysses", "ring"}), layouts.dense.groups({"cp"}));
  EXPECT_EQ(layouts.context.groups({"dp"}), layouts.dense.groups({"dp"}));
}

TEST(Layouts, OfExpertsAcrossDataParallelRanks) {
  const auto layouts = layouts_of({.tensor_model_parallel_size = 2, .expert_model_parallel_size = 4}, 16);
  EXPECT_EQ(layouts.expert.groups({"tp"}).front(), (std::vector{0, 1}));
  EXPECT_EQ(layouts.expert.groups({"ep"}), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14}, {9, 11, 13, 15}}));
  EXPECT_EQ(layouts.expert.groups({"dp"}).front(), (std::vector{0, 8}));
  // Experts that are not split keep whole experts on every rank of the tensor group.
  const auto whole = layouts_of(
      {.tensor_model_parallel_size = 2, .expert_model_parallel_size = 4, .expert_tensor_parallel_size = 1}, 8);
  EXPECT_EQ(whole.expert.groups({"ep"}), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(whole.dense.groups({"tp"}).front(), (std::vector{0, 1}));
}

TEST(Layouts, FollowTheOrder) {
  const auto layouts =
      layouts_of({.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2, .order = "tp-pp-dp"}, 8);
  EXPECT_EQ(layouts.dense.groups({"pp"}), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(layouts.dense.groups({"dp"}), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(Layouts, NameWhatDoesNotFit) {
  EXPECT_TRUE(Throws([] { layouts_of({.tensor_model_parallel_size = 3}, 8); }, tuttiInvalidArgument,
                     {"world's size (8)", "tensor_model_parallel_size (3)"}));
  EXPECT_TRUE(Throws([] { layouts_of({.tensor_model_parallel_size = 2, .data_parallel_size = 2}, 8); },
                     tuttiInvalidArgument, {"data_parallel_size (2)", "is 4", "world's size is 8"}));
  EXPECT_TRUE(Throws([] { layouts_of({.context_parallel_size = 4, .ulysses_size = 3}, 8); }, tuttiInvalidArgument,
                     {"context_parallel_size (4)", "ulysses_size (3)"}));
  EXPECT_TRUE(Throws([] { layouts_of({.expert_model_parallel_size = 3}, 8); }, tuttiInvalidArgument,
                     {"expert_model_parallel_size (3)", "8"}));
  EXPECT_TRUE(Throws([] { layouts_of({.pipeline_model_parallel_size = 0}, 8); }, tuttiInvalidArgument,
                     {"pipeline_model_parallel_size is 0"}));
  EXPECT_TRUE(Throws([] { layouts_of({.tensor_model_parallel_size = 2, .order = "dp-pp"}, 8); }, tuttiInvalidArgument,
                     {"tp has size 2", "\"dp-pp\""}));
  EXPECT_TRUE(Throws([] { layouts_of({.order = "tp-dp-zp"}, 8); }, tuttiInvalidArgument, {"\"zp\""}));
  EXPECT_TRUE(Throws(
      [] {
        layouts_of({.tensor_model_parallel_size = 2,
                    .pipeline_model_parallel_size = 2,
                    .expert_model_parallel_size = 2,
                    .expert_tensor_parallel_size = 1,
                    .order = "tp-pp-ep-dp"},
                   8);
      },
      tuttiInvalidArgument, {"pipelines are on other ranks", "put pp last"}));
}

float SumOver(ProcessGroup& group, float mine) {
  group.all_reduce(Tensor(&mine, {1}), Tensor(&mine, {1}), tuttiSum);
  return mine;
}
float SumOf(const std::vector<int>& ranks) {
  return static_cast<float>(std::accumulate(ranks.begin(), ranks.end(), 0));
}

TEST(ParallelState, GroupsAreWhoTheLayoutSays) {
  RunRanks(8, [](Rank& self) {
    const auto comm = self.Join();
    const auto state = initialize_model_parallel(
        comm, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2, .expert_model_parallel_size = 2});
    const auto mine = static_cast<float>(self.rank());
    const auto& layouts = layouts_of(
        {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2, .expert_model_parallel_size = 2}, 8);
    const auto members = [&](const MeshLayout& layout, const char* axis) {
      return layout.group_of(self.rank(), {axis});
    };
    EXPECT_EQ(SumOver(state->get_tensor_model_parallel_group(), mine), SumOf(members(layouts.dense, "tp")));
    EXPECT_EQ(SumOver(state->get_data_parallel_group(), mine), SumOf(members(layouts.dense, "dp")));
    EXPECT_EQ(SumOver(state->get_pipeline_model_parallel_group(), mine), SumOf(members(layouts.dense, "pp")));
    EXPECT_EQ(SumOver(state->get_expert_model_parallel_group(), mine), SumOf(members(layouts.expert, "ep")));
    EXPECT_EQ(SumOver(state->get_expert_data_parallel_group(), mine), SumOf(members(layouts.expert, "dp")));
    EXPECT_EQ(SumOver(state->get_model_parallel_group(), mine),
              SumOf(layouts.dense.group_of(self.rank(), {"tp", "pp"})));
    EXPECT_EQ(SumOver(state->get_embedding_group(), mine), SumOf(members(layouts.dense, "pp")));
    EXPECT_EQ(SumOver(state->get_world_group(), mine), 28);
    EXPECT_EQ(state->get_tensor_model_parallel_group().rank(), self.rank() % 2);
    EXPECT_EQ(state->get_pipeline_model_parallel_group().rank(), self.rank() / 4);
    EXPECT_GT(state->bytes_sent().at("tp"), 0u);
    self.Meet();
  });
}

// Ranks with parts of the same samples are replicas, too; and traffic is counted for every group.
TEST(ParallelState, ContextParallelRanksAreReplicasOfTheParameters) {
  RunRanks(8, [](Rank& self) {
    const auto comm = self.Join();
    const ModelParallelSizes sizes{.tensor_model_parallel_size = 2, .context_parallel_size = 2, .ulysses_size = 2};
    const auto state = initialize_model_parallel(comm, sizes);
    const auto layouts = layouts_of(sizes, 8);
    const auto mine = static_cast<float>(self.rank());
    EXPECT_EQ(SumOver(state->get_data_parallel_group(true), mine),
              SumOf(layouts.dense.group_of(self.rank(), {"dp", "cp"})));
    EXPECT_EQ(SumOver(state->get_data_parallel_group(), mine), SumOf(layouts.dense.group_of(self.rank(), {"dp"})));
    EXPECT_EQ(SumOver(state->get_ulysses_parallel_group(), mine),
              SumOf(layouts.context.group_of(self.rank(), {"ulysses"})));
    EXPECT_EQ(SumOver(state->get_ring_parallel_group(), mine), mine);
    const auto sent = state->bytes_sent();
    for (const char* const group : {"dp", "cp-dp", "ulysses"}) {
      ASSERT_TRUE(sent.contains(group)) << group;
      EXPECT_GT(sent.at(group), 0u) << group;
    }
    self.Meet();
  });
}

TEST(ParallelState, GroupsOfOneTalkToNobody) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    const auto state = initialize_model_parallel(comm, {});
    EXPECT_EQ(SumOver(state->get_tensor_model_parallel_group(), 5), 5);
    EXPECT_EQ(state->get_tensor_model_parallel_group().bytes_sent(), 0u);
    // Out of place the data must be copied.
    float from = 7, to = 0;
    state->get_tensor_model_parallel_group().all_gather(Tensor(&from, {1}), Tensor(&to, {1}));
    EXPECT_EQ(to, 7);
    self.Meet();
  });
}

TEST(DeviceMesh, MustFillTheWorld) {
  RunRanks(3, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup world(comm);
    EXPECT_TRUE(Throws(
        [&] {
          DeviceMesh(world, MeshLayout({{"dp", 2}, {"tp", 2}}));
        },
        tuttiInvalidArgument, {"dp (2) x tp (2)", "4 places", "3 ranks"}));
    self.Meet();
  });
}

TEST(ProcessGroup, NamesGroupsThatAreUsedInAnotherOrder) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup world(comm);
    DeviceMesh mesh(world, MeshLayout({{"a", 2}, {"b", 1}}));
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.initTimeoutMs = 1000;
    ProcessGroup one(world, "one", {0, 1}, config), two(world, "two", {0, 1}, config);
    auto& first = self.rank() == 0 ? one : two;
    if (self.rank() == 1) {
      EXPECT_TRUE(Throws([&] { first.comm(); }, tuttiInvalidUsage,
                         {"rank 1 first uses group \"two\" of ranks 0, 1", "rank 0 first uses group \"one\""}));
    } else {
      EXPECT_TRUE(Throws([&] { first.comm(); }, tuttiTimeoutError, {}));
    }
    self.Meet();
  });
}

TEST(ProcessGroup, ChecksCountsAndTypesBeforeAnythingIsSent) {
  RunRanks(2, [](Rank& self) {
    const auto comm = self.Join();
    ProcessGroup world(comm);
    std::vector<float> data(8);
    const Tensor four(data.data(), {4}), eight(data.data(), {8});
    EXPECT_TRUE(Throws([&] { world.all_gather(eight, eight); }, tuttiInvalidArgument, {"output has 8", "16"}));
    EXPECT_TRUE(
        Throws([&] { world.reduce_scatter(four, four, tuttiSum); }, tuttiInvalidArgument, {"input has 4", "8"}));
    EXPECT_TRUE(Throws([&] { world.all_reduce(four, Tensor(data.data(), {4}, tuttiInt32), tuttiSum); },
                       tuttiInvalidArgument, {"output is int32", "float32"}));
    self.Meet();
  });
}

}  // namespace
}  // namespace tutti::parallel
