#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/json.h"
#include "tools/planner/plan_ranking.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

LanguageModel Model(const std::string& name) {
  const auto path = "examples/models/" + name + ".json";
  return ParseLanguageModel(ReadFile(path, JsonLimits().bytes), path);
}

Cluster ClusterOf(const std::string& host, int nodes, double tflops) {
  Cluster cluster;
  cluster.node = xml::ReadTopologyFile("topology/testdata/" + host + ".xml").system;
  cluster.nodes = nodes;
  cluster.gpus = static_cast<int>(cluster.node.All(topology::DeviceKind::gpu, 0).size());
  cluster.tflops = tflops;
  cluster.efficiency = 0.6;
  cluster.memory_gb = 80;
  return cluster;
}

TEST(PlanModel, CountsParametersAndOperations) {
  EXPECT_NEAR(Model("llama3_405b").parameters() / 1e9, 405.9, 0.1);  // Llama 3's model card: 405 B
  // Narayanan et al. 2021, table 1.
  EXPECT_NEAR(Model("gpt_145b").parameters() / 145.6e9, 1, 0.01);
  EXPECT_NEAR(Model("gpt_530b").parameters() / 529.6e9, 1, 0.01);
  // Six operations per parameter and token, and a little for attention's square.
  const auto model = Model("llama3_405b");
  const double tokens = model.global_batch * model.sequence;
  EXPECT_GT(model.step_flops() / tokens, 6 * (model.parameters() - model.embedding_parameters()));
  EXPECT_LT(model.step_flops() / tokens, 6.6 * model.parameters());
}

TEST(PlanModel, NamesWhatIsWrong) {
  const std::string good = R"("layers": 2, "hidden": 8, "heads": 4, "ffn": 32, "vocabulary": 9, "sequence": 16)";
  const auto refused = [](const std::string& text, const std::string& words) {
    try {
      ParseLanguageModel(text, "m.json");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused("{", "m.json: not valid JSON");
  refused("[]", "a model is an object");
  refused("{" + good + "}", "\"global_batch\" is missing");
  refused("{" + good + R"(, "global_batch": -4})", "\"global_batch\" is -4");
  refused("{" + good + R"(, "global_batch": 4, "hedas": 3})", "\"hedas\" is not a field");
  refused("{" + good + R"(, "global_batch": 4, "kv_heads": 3})", "heads (4) is not divisible by kv_heads (3)");
  refused("{" + good + R"(, "global_batch": 4, "experts": 8})", "top_k (0) must be from 1 to experts (8)");
  refused("{" + good + R"(, "global_batch": 4, "gated": 1})", "\"gated\" is 1");
}

TEST(PlanStrategy, EveryOneIsLegalOnceAndUsesAllRanks) {
  const auto model = Model("gpt_145b");
  const auto legal = LegalStrategies(model, 96, 8);
  std::set<std::string> texts;
  for (const auto& strategy : legal) {
    EXPECT_EQ(strategy.ranks(), 96);
    EXPECT_EQ(WhyIllegal(strategy, model), "");
    EXPECT_TRUE(texts.insert(ToString(strategy)).second) << ToString(strategy);
    EXPECT_GE(strategy.stage_layers(model) * strategy.pp, model.layers);
  }
  EXPECT_GT(legal.size(), 1000u);
  const auto why = [&](const Strategy& strategy) { return WhyIllegal(strategy, model); };
  EXPECT_EQ(why({.tp = 5}), "heads (96) is not divisible by tp (5)");
  EXPECT_EQ(why({.pp = 81}), "81 stages are more than the 80 layers");
  EXPECT_EQ(why({.dp = 7}), "global_batch (2304) is not divisible by dp (7)");
  EXPECT_EQ(why({.ep = 2}), "ep is 2, but the model has no experts");
  EXPECT_EQ(why({.virtual_stages = 2}), "chunks is 2, but pp is 1, so there are no stages to interleave");
  // 2,304 micro-batches, and 36.
  EXPECT_EQ(why({.pp = 5, .virtual_stages = 2}), "");
  EXPECT_EQ(why({.dp = 64, .pp = 5, .virtual_stages = 2}), "");
  EXPECT_EQ(why({.zero = 1}), "zero is 1, but dp x cp is 1, so no other rank shares the state");
}

// Rajbhandari et al. 2020, figure 1, with fp32 gradients: 18 bytes per parameter, of which each level shards more.
TEST(PlanStrategy, ZeroSharesWhatItsPapersSay) {
  const auto model = Model("gpt_145b");
  const double all = model.parameters();
  const auto state = [&](int zero) {
    const auto need = MemoryOf({.dp = 64, .zero = zero}, model);
    return (need.parameters + need.gradients + need.optimizer) / all;
  };
  EXPECT_NEAR(state(0), 18, 0.01);
  EXPECT_NEAR(state(1), 6 + 12.0 / 64, 0.01);
  EXPECT_NEAR(state(2), 2 + 16.0 / 64, 0.01);
  EXPECT_NEAR(state(3), 18.0 / 64, 0.01);
}

TEST(PlanStrategy, ActivationsAreSplitHeldAndRecomputed) {
  const auto model = Model("gpt_145b");
  const auto bytes = [&](const Strategy& strategy) { return MemoryOf(strategy, model).activations; };
  const Strategy plain{.pp = 8};
  EXPECT_NEAR(bytes({.tp = 4, .pp = 8}), bytes(plain) / 4, 1);
  EXPECT_NEAR(bytes({.cp = 2, .pp = 8}), bytes(plain) / 2, 1);
  EXPECT_NEAR(bytes({.pp = 8, .micro_batch = 2}), 2 * bytes(plain), 1);
  EXPECT_NEAR(bytes({.pp = 8, .virtual_stages = 2}), bytes(plain) * (1 + 7.0 / 16), 1);
  // 18 micro-batches are two rounds of 9; 3 are fewer than the stages, and all are held (docs/parallel_pipeline.md).
  const double each = bytes(plain) / 8;
  EXPECT_NEAR(bytes({.dp = 128, .pp = 8, .virtual_stages = 2}), each * (9 + 2 * 7 + 1) / 2, 1);
  EXPECT_NEAR(bytes({.dp = 768, .pp = 8, .virtual_stages = 2}), each * 3, 1);
  EXPECT_LT(bytes({.pp = 8, .recompute = true}), bytes(plain) / 8);
}

TEST(PlanPrice, BubbleIsThePapers) {
  const auto model = Model("gpt_145b");
  const auto cluster = ClusterOf("dgxa100", 192, 312);
  StepCosts costs(cluster, model);
  const auto bubble = [&](const Strategy& strategy) {  // in chunks' times
    const auto time = costs.TimeOf(strategy);
    const double work = time.compute + time.tensor;  // of all micro-batches
    return time.bubble / work * strategy.virtual_stages * strategy.microbatches(model);
  };
  for (const int chunks : {1, 2, 4}) {
    for (const int micro_batch : {1, 2, 8}) {  // 96, 48 and 12 micro-batches on 7 stages
      EXPECT_NEAR(bubble({.tp = 8, .dp = 24, .pp = 7, .virtual_stages = chunks, .micro_batch = micro_batch}), 6, 1e-9);
    }
    // 3 micro-batches on 7 stages: the first one is back from the last stage 4 chunks after the third has left.
    EXPECT_NEAR(bubble({.tp = 8, .dp = 24, .pp = 7, .virtual_stages = chunks, .micro_batch = 32}), 6 + (chunks - 1) * 4,
                1e-9);
  }
}

TEST(PlanPrice, GroupsOfANodeAreFasterAndTimesGrowWithBytes) {
  const auto model = Model("gpt_145b");
  const auto cluster = ClusterOf("dgxh100", 16, 989);
  StepCosts costs(cluster, model);
  for (const auto collective :
       {schedule::Collective::all_reduce, schedule::Collective::all_gather, schedule::Collective::all_to_all}) {
    double last = 0;
    for (double bytes = 1e3; bytes < 1e10; bytes *= 3) {
      const double here = costs.Seconds(collective, {8, 1}, bytes), across = costs.Seconds(collective, {8, 8}, bytes);
      EXPECT_LT(here, across) << schedule::NameOf(collective) << " of " << bytes;
      EXPECT_GE(across, last);
      last = across;
    }
  }
  EXPECT_EQ(costs.Seconds(schedule::Collective::all_reduce, {1, 1}, 1e9), 0);
}

// Prices and simulations agree roughly; docs/selection.md says how far apart they are.
TEST(PlanPrice, TheSimulatorAgreesToAFactor) {
  const auto model = Model("gpt_145b");
  const auto cluster = ClusterOf("dgxh100", 256, 989);
  StepCosts priced(cluster, model), simulated(cluster, model, TimeSource::simulation);
  for (const auto& group : {GroupShape{8, 1}, GroupShape{4, 8}, GroupShape{16, 2}, GroupShape{256, 8}}) {
    for (const auto collective :
         {schedule::Collective::all_gather, schedule::Collective::reduce_scatter, schedule::Collective::all_reduce}) {
      for (const double bytes : {1e6, 3e7, 1e10}) {
        const double ratio = simulated.Seconds(collective, group, bytes) / priced.Seconds(collective, group, bytes);
        EXPECT_GT(ratio, 0.6) << schedule::NameOf(collective) << " of " << bytes << " in groups of " << group.size;
        EXPECT_LT(ratio, 1.7) << schedule::NameOf(collective) << " of " << bytes << " in groups of " << group.size;
      }
    }
  }
}

// Strategies with a price above the best found are not simulated. The result is still that of simulating all, up to the
// few per cent by which a simulation may be shorter than its price.
TEST(PlanRanking, FindsWhatPlayingEverythingFinds) {
  const auto model = Model("gpt_145b");
  const auto cluster = ClusterOf("dgxh100", 16, 989);
  const auto legal = LegalStrategies(model, cluster.ranks(), cluster.gpus);
  PlanRanking ranking(cluster, model, legal, TimeSource::simulation);
  StepCosts simulated(cluster, model, TimeSource::simulation);
  std::vector<double> all;
  for (const auto& strategy : legal) {
    if (MemoryOf(strategy, model).total() <= cluster.room()) all.push_back(simulated.TimeOf(strategy).total());
  }
  EXPECT_EQ(ranking.fitting(), all.size());
  EXPECT_EQ(ranking.fitting() + ranking.too_large().size(), legal.size());
  std::ranges::sort(all);
  const auto fastest = ranking.Fastest(20, [](const Strategy&) { return true; });
  ASSERT_EQ(fastest.size(), 20u);
  for (std::size_t i = 0; i < fastest.size(); ++i) {
    const double seconds = fastest[i].time.total();
    EXPECT_DOUBLE_EQ(seconds, simulated.TimeOf(fastest[i].strategy).total());
    EXPECT_NEAR(seconds / all[i], 1, 0.02) << i;
    EXPECT_GE(seconds, fastest[i == 0 ? 0 : i - 1].time.total());
  }
  EXPECT_EQ(ranking.Faster(fastest.front().time.total()), 0u);
  EXPECT_LE(ranking.Faster(fastest.back().time.total()), 19u);
}

TEST(PlanRanking, FindsTheFastestOfAKind) {
  const auto model = Model("gpt_145b");
  const auto cluster = ClusterOf("dgxh100", 16, 989);
  const auto legal = LegalStrategies(model, cluster.ranks(), cluster.gpus);
  for (const auto source : {TimeSource::price, TimeSource::simulation}) {
    PlanRanking ranking(cluster, model, legal, source);
    const auto best = ranking.Fastest(1, [](const Strategy&) { return true; }).front();
    for (const int zero : {0, 1, 2, 3}) {
      const auto of_kind = ranking.Fastest(1, [zero](const Strategy& strategy) { return strategy.zero == zero; });
      ASSERT_EQ(of_kind.size(), 1u);
      EXPECT_EQ(of_kind.front().strategy.zero, zero);
      EXPECT_GE(of_kind.front().time.total(), best.time.total());
    }
    EXPECT_TRUE(ranking.Fastest(1, [](const Strategy& strategy) { return strategy.tp == 3; }).empty());
    EXPECT_DOUBLE_EQ(ranking.Of(best.strategy).time.total(), best.time.total());
  }
}

// Published speeds, and those predicted at 0.6 of the data sheet's rate.
TEST(PlanPrice, PublishedRunsAreForetoldToASixth) {
  struct Run {
    const char* model;
    const char* host;
    int nodes;
    double sheet, published;  // TFLOP/s of a GPU
    Strategy strategy;
  };
  // Megatron-LM's numbers (Narayanan et al. 2021, table 1: 148 and 163) include recomputing, which is a quarter.
  for (const auto& run :
       {Run{"gpt_145b", "dgxa100", 192, 312, 148 * 0.75, {.tp = 8, .dp = 24, .pp = 8, .recompute = true}},
        Run{"gpt_530b", "dgxa100", 315, 312, 163 * 0.75, {.tp = 8, .dp = 9, .pp = 35, .recompute = true}},
        // The Llama 3 Herd of Models, 2024, table 4.
        Run{"llama3_405b", "dgxh100", 1024, 989, 430, {.tp = 8, .dp = 64, .pp = 16, .virtual_stages = 2, .zero = 1}}}) {
    const auto model = Model(run.model);
    const auto cluster = ClusterOf(run.host, run.nodes, run.sheet);
    for (const auto source : {TimeSource::price, TimeSource::simulation}) {
      StepCosts costs(cluster, model, source);
      const double tflops = model.step_flops() / costs.TimeOf(run.strategy).total() / cluster.ranks() / 1e12;
      EXPECT_NEAR(tflops / run.published, 1, 1.0 / 6) << run.model;
    }
  }
}

}  // namespace
}  // namespace tutti::tools
