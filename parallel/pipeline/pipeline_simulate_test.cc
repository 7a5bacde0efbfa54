#include "tutti/parallel/pipeline_simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

using Schedules = std::vector<PipelineSchedule>;

Schedules Both(int stages, int microbatches) {
  return {gpipe(stages, microbatches), one_forward_one_backward(stages, microbatches)};
}

// Rendezvous costs nothing where stages are equal: neighbours come to their exchanges at the same time.
TEST(PipelineSimulate, EqualStagesHaveThePapersBubble) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int microbatches = 1; microbatches <= 16; ++microbatches) {
      for (const auto& schedule : Both(stages, microbatches)) {
        for (const auto& [forward, backward] : {std::pair{1.0, 2.0}, {1.0, 1.0}, {3.0, 0.5}}) {
          const auto timeline = pipeline_simulate(schedule, PipelineDurations::uniform(stages, forward, backward));
          EXPECT_NEAR(timeline.bubble_fraction(), ideal_bubble_fraction(stages, microbatches), 1e-9)
              << schedule.name << ", " << stages << " stages, " << microbatches << " microbatches, " << forward << " + "
              << backward;
          EXPECT_NEAR(timeline.makespan(), (microbatches + stages - 1) * (forward + backward), 1e-9);
        }
      }
    }
  }
}

// The papers assume buffered sends. Under rendezvous the planned exchanges give the same bubble, if a backward takes as
// long as two forwards.
TEST(PipelineSimulate, InterleavedHasThePapersBubble) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (int microbatches = stages; microbatches <= 3 * stages; ++microbatches) {
        const auto schedule = interleaved_one_forward_one_backward(stages, microbatches, chunks);
        const double bubble = ideal_bubble_fraction(stages, microbatches, chunks);
        for (const auto& [forward, backward] : {std::pair{1.0, 2.0}, {1.0, 1.0}, {3.0, 0.5}, {2.0, 5.0}}) {
          const auto durations = PipelineDurations::uniform(stages, forward, backward);
          const auto buffered = pipeline_simulate(schedule, durations, PipelineTransport::buffered).bubble_fraction();
          const auto rendezvous = pipeline_simulate(schedule, durations).bubble_fraction();
          const auto where = fmt::format("{} stages of {} chunks, {} microbatches, {} + {}", stages, chunks,
                                         microbatches, forward, backward);
          EXPECT_NEAR(buffered, bubble, 1e-9) << where;
          EXPECT_GE(rendezvous, bubble - 1e-9) << where;
          if (backward != 2 * forward) continue;
          EXPECT_NEAR(rendezvous, bubble, 1e-9) << where;
        }
      }
    }
  }
  const auto schedule = interleaved_one_forward_one_backward(4, 8, 2);
  EXPECT_NEAR(pipeline_simulate(schedule, PipelineDurations::uniform(4, 1, 2)).bubble_fraction(), 3.0 / 19, 1e-9);
}

// The claims of docs/parallel_pipeline.md about other durations, under rendezvous.
TEST(PipelineSimulate, InterleavedIsShorterThan1F1B) {
  for (const auto& [backward, most] : {std::pair{1.5, 1.11}, {1.8, 1.04}, {2.2, 1.02}, {3.0, 1.08}}) {
    for (int stages = 2; stages <= 8; ++stages) {
      for (int chunks = 2; chunks <= 4; ++chunks) {
        for (int microbatches = stages; microbatches <= 4 * stages; microbatches *= 2) {
          const auto makespan = [&](const PipelineSchedule& schedule, double of_all) {
            return pipeline_simulate(schedule, PipelineDurations::uniform(stages, of_all, backward * of_all))
                .makespan();
          };
          const double interleaved =
              makespan(interleaved_one_forward_one_backward(stages, microbatches, chunks), 1.0 / chunks);
          EXPECT_LT(interleaved, makespan(one_forward_one_backward(stages, microbatches), 1));
          EXPECT_LE(interleaved, most * (microbatches + (stages - 1.0) / chunks) * (1 + backward))
              << stages << " stages of " << chunks << " chunks, " << microbatches << " microbatches";
        }
      }
    }
  }
}

// Those about ZB-V.
TEST(PipelineSimulate, ZeroBubbleVIsShorterThan1F1B) {
  double shortest = 1;
  for (const double backward : {1.8, 2.0, 2.2, 2.5}) {
    for (int stages = 2; stages <= 8; ++stages) {
      for (const int rounds : {1, 2, 3, 4, 8}) {
        const auto makespan = [&, microbatches = rounds * stages](const char* name, double of_all) {
          return pipeline_simulate(get_schedule(name, stages, microbatches),
                                   PipelineDurations::uniform(stages, of_all, backward * of_all))
              .makespan();
        };
        const double v = makespan("ZB-V", 0.5), h1 = makespan("ZB-H1", 1);
        EXPECT_LT(v, makespan("1F1B", 1)) << stages << " stages, " << rounds << " rounds, " << backward;
        EXPECT_LE(v, 1.03 * h1) << stages << " stages, " << rounds << " rounds, " << backward;
        shortest = std::min(shortest, v / h1);
      }
    }
  }
  EXPECT_LT(shortest, 0.94);
}

TEST(PipelineSimulate, ZeroBubbleH1HasThePapersBubble) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int microbatches = stages; microbatches <= 20; ++microbatches) {
      const auto schedule = zero_bubble_h1(stages, microbatches);
      for (const auto& [forward, backward, share] :
           std::vector<std::array<double, 3>>{{1, 2, 0.5}, {2, 3, 1.0 / 3}, {1, 1, 0.5}, {2, 4, 0.25}, {1, 2, 0}}) {
        auto durations = PipelineDurations::uniform(stages, forward, backward);
        durations.weight_share = share;
        const double weight = backward * share, input = backward - weight;
        for (const auto transport : {PipelineTransport::rendezvous, PipelineTransport::buffered}) {
          const auto timeline = pipeline_simulate(schedule, durations, transport);
          EXPECT_NEAR(timeline.makespan(),
                      microbatches * (forward + backward) + (stages - 1) * (forward + input - weight), 1e-9)
              << stages << " stages, " << microbatches << " microbatches, " << forward << " + " << input << " + "
              << weight;
          EXPECT_NEAR(timeline.bubble_fraction(), zero_bubble_h1_fraction(stages, microbatches, forward, input, weight),
                      1e-9);
        }
      }
    }
  }
}

// Where a chunk's three passes take equally long, a stage stands idle only while the first microbatch comes to it and
// while the last gradient goes on. That is half of ZB-H1's bubble, whose passes take twice as long.
TEST(PipelineSimulate, ZeroBubbleVHasThePapersBubble) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int microbatches = 2 * stages - 1; microbatches <= 20; ++microbatches) {
      const auto schedule = zero_bubble_v(stages, microbatches);
      for (const auto transport : {PipelineTransport::rendezvous, PipelineTransport::buffered}) {
        const auto timeline = pipeline_simulate(schedule, PipelineDurations::uniform(stages, 1, 2), transport);
        EXPECT_NEAR(timeline.makespan(), 6 * microbatches + stages - 1, 1e-9)
            << stages << " stages, " << microbatches << " microbatches";
        const auto h1 = zero_bubble_h1_fraction(stages, microbatches, 2, 2, 2), v = timeline.bubble_fraction();
        EXPECT_NEAR(v / (1 - v), h1 / (1 - h1) / 2, 1e-9);
        for (const auto& spans : timeline.spans)
          EXPECT_NEAR(spans.back().end - spans.front().start, 6 * microbatches, 1e-9);
      }
    }
  }
}

// Between two chunks of one stage nothing is sent, so that it takes no time.
TEST(PipelineSimulate, AStageSendsNothingToItself) {
  const auto timeline = pipeline_simulate(zero_bubble_v(1, 3), PipelineDurations::uniform(1, 1, 2, 5));
  EXPECT_EQ(timeline.makespan(), 18);
  EXPECT_EQ(timeline.bubble_fraction(), 0);
}

TEST(PipelineSimulate, ForwardsAloneHaveTheirBubble) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (const int microbatches : {1, 4, 9}) {
      for (const char* name : {"GPipe", "1F1B", "ZB-H1"}) {
        const auto timeline = pipeline_simulate(forward_only(get_schedule(name, stages, microbatches)),
                                                PipelineDurations::uniform(stages, 1, 2));
        EXPECT_NEAR(timeline.bubble_fraction(), ideal_bubble_fraction(stages, microbatches), 1e-9) << name;
      }
    }
  }
}

using Row = std::vector<std::pair<double, double>>;
Row RowOf(const PipelineTimeline& timeline, std::size_t stage) {
  Row row;
  for (const auto& span : timeline.spans[stage]) row.emplace_back(span.start, span.end);
  return row;
}

TEST(PipelineSimulate, ASlowerStageByHand) {
  const auto timeline = pipeline_simulate(one_forward_one_backward(2, 2), {{1, 2}, {2, 4}, 0});
  EXPECT_EQ(RowOf(timeline, 0), (Row{{0, 1}, {1, 2}, {7, 9}, {13, 15}}));
  EXPECT_EQ(RowOf(timeline, 1), (Row{{1, 3}, {3, 7}, {7, 9}, {9, 13}}));
  EXPECT_EQ(timeline.makespan(), 15);
  EXPECT_NEAR(timeline.bubble_fraction(), 12.0 / 30, 1e-9);
}

TEST(PipelineSimulate, TransfersTakeTimeAtBothEnds) {
  const auto timeline = pipeline_simulate(gpipe(2, 2), PipelineDurations::uniform(2, 1, 2, 0.5));
  EXPECT_EQ(RowOf(timeline, 0), (Row{{0, 1}, {1.5, 2.5}, {6.5, 8.5}, {9, 11}}));
  EXPECT_EQ(RowOf(timeline, 1), (Row{{1.5, 2.5}, {3, 4}, {4, 6}, {6.5, 8.5}}));
}

// Where rendezvous does cost: stage 0 cannot begin a third forward before stage 1 has taken the second activation.
TEST(PipelineSimulate, AFastStageWaitsForASlowReceiver) {
  const auto timeline = pipeline_simulate(gpipe(2, 3), {{1, 3}, {1, 1}, 0});
  EXPECT_EQ(RowOf(timeline, 0), (Row{{0, 1}, {1, 2}, {4, 5}, {11, 12}, {12, 13}, {13, 14}}));
}

TEST(PipelineSimulate, OneForwardOneBackwardIsNeverLonger) {
  std::mt19937 random(1);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  double shortest = 1;
  for (int trial = 0; trial < 20000; ++trial) {
    const int stages = 1 + static_cast<int>(random() % 8), microbatches = 1 + static_cast<int>(random() % 16);
    auto durations = PipelineDurations::uniform(stages, 0, 0, trial % 2 == 0 ? 0 : between(0, 0.5));
    for (auto& forward : durations.forward) forward = between(0.5, 1.5);
    for (auto& backward : durations.backward) backward = between(1, 3);
    const auto all_first = pipeline_simulate(gpipe(stages, microbatches), durations).makespan();
    const auto alternating = pipeline_simulate(one_forward_one_backward(stages, microbatches), durations).makespan();
    EXPECT_LE(alternating, all_first + 1e-9) << stages << " stages, " << microbatches << " microbatches";
    shortest = std::min(shortest, alternating / all_first);
  }
  RecordProperty("shortest", std::to_string(shortest));  // for docs/notebook/parallel/bubbles.md
}

TEST(PipelineSimulate, NamesWhatDoesNotFit) {
  EXPECT_TRUE(Throws([] { pipeline_simulate(gpipe(2, 2), PipelineDurations::uniform(3, 1, 1)); }, tuttiInvalidArgument,
                     {"3 durations of a forward", "2 stages"}));
  EXPECT_TRUE(Throws(
      [] {
        pipeline_simulate(gpipe(2, 2), {{1, 1}, {1, -2}, 0});
      },
      tuttiInvalidArgument, {"stage 1's backward takes -2"}));
  EXPECT_TRUE(Throws([] { pipeline_simulate(gpipe(2, 2), PipelineDurations::uniform(2, 1, 1, -1)); },
                     tuttiInvalidArgument, {"a transfer takes -1"}));
  EXPECT_TRUE(Throws([] { pipeline_simulate({}, {}); }, tuttiInvalidArgument, {"0 stages"}));
}

}  // namespace
}  // namespace tutti::parallel
