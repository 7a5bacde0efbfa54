#include "parallel/pipeline/pipeline_negotiation.h"

#include <stdexcept>

#include "parallel/testing.h"

namespace tutti::parallel {
namespace {

const TensorSpec kSix{{2, 3}, tuttiFloat32};

// Stages that fit: each takes what the one before it gives.
std::vector<PipelineTerms> Fitting(int stages) {
  std::vector<PipelineTerms> terms(static_cast<std::size_t>(stages), TermsOf(gpipe(stages, 8)));
  for (std::size_t stage = 0; stage + 1 < terms.size(); ++stage) terms[stage].gives = terms[stage + 1].takes = kSix;
  return terms;
}

void RequireAgreement(const std::vector<PipelineTerms>& terms) {
  RequireSameSchedule(terms);
  RequireFitting(gpipe(static_cast<int>(terms.size()), 8), terms);
}

// All stages get this error after `change`.
::testing::AssertionResult Refused(const std::function<void(std::vector<PipelineTerms>&)>& change, tuttiResult_t code,
                                   const std::vector<std::string>& words) {
  auto terms = Fitting(3);
  change(terms);
  return Throws([&] { RequireAgreement(terms); }, code, words);
}

TEST(PipelineNegotiation, StagesThatFit) {
  for (const int stages : {1, 2, 5}) EXPECT_NO_THROW(RequireAgreement(Fitting(stages)));
}

TEST(PipelineNegotiation, NamesWhatDiffersBetweenSchedules) {
  EXPECT_TRUE(Refused([](auto& terms) { terms[2].schedule = "1F1B"; }, tuttiInvalidUsage,
                      {"the schedule is \"GPipe\" on stage 0, but \"1F1B\" on stage 2"}));
  EXPECT_TRUE(Refused([](auto& terms) { terms[1].microbatches = 4; }, tuttiInvalidUsage,
                      {"number of microbatches is 8 on stage 0, but 4 on stage 1", "same schedule"}));
  EXPECT_TRUE(Refused([](auto& terms) { terms[1].stages = 4; }, tuttiInvalidUsage,
                      {"number of stages is 3 on stage 0, but 4 on stage 1"}));
  EXPECT_TRUE(Refused(
      [](auto& terms) {
        auto other = gpipe(3, 8);
        std::swap(other.actions[0][0], other.actions[0][1]);
        terms[2].digest = TermsOf(other).digest;
      },
      tuttiInvalidUsage, {"digest of the schedule's actions", "on stage 0", "on stage 2"}));
}

TEST(PipelineNegotiation, NamesBothShapes) {
  EXPECT_TRUE(Refused(
      [](auto& terms) {
        terms[2].takes = TensorSpec{{2, 4}, tuttiFloat32};
      },
      tuttiInvalidUsage, {"stage 1 gives float32 [2, 3] per microbatch", "stage 2 takes float32 [2, 4]"}));
  EXPECT_TRUE(Refused(
      [](auto& terms) {
        terms[0].gives = TensorSpec{{2, 3}, tuttiFloat16};
      },
      tuttiInvalidUsage, {"stage 0 gives float16 [2, 3]", "stage 1 takes float32 [2, 3]"}));
  EXPECT_TRUE(Refused([](auto& terms) { terms[1].takes.reset(); }, tuttiInvalidUsage,
                      {"stage 0 gives float32 [2, 3]", "stage 1 takes nothing"}));
  EXPECT_TRUE(Refused([](auto& terms) { terms[1].gives.reset(), terms[2].takes.reset(); }, tuttiInvalidUsage,
                      {"stage 1 gives nothing", "stage 2 takes nothing"}));
}

// The second chunks come back from the last stage.
TEST(PipelineNegotiation, NamesChunksByTheirPlacement) {
  const auto schedule = zero_bubble_v(2, 8);
  std::vector<PipelineTerms> terms(4, TermsOf(schedule));  // model chunks 0, 1, 3, 2
  terms[0].gives = terms[1].takes = terms[1].gives = terms[3].takes = terms[3].gives = terms[2].takes = kSix;
  EXPECT_NO_THROW(RequireFitting(schedule, terms));
  terms[2].takes = TensorSpec{{2, 4}, tuttiFloat32};
  EXPECT_TRUE(Throws([&] { RequireFitting(schedule, terms); }, tuttiInvalidUsage,
                     {"chunk 1 of stage 1 gives float32 [2, 3]", "chunk 1 of stage 0 takes float32 [2, 4]"}));
  auto looped = schedule;
  looped.placement = PipelinePlacement::loop;
  EXPECT_NE(TermsOf(looped).digest, TermsOf(schedule).digest);
}

// Stages with the same actions that would send other things, or at other times, must not begin.
TEST(PipelineNegotiation, TheDigestIsOfExchangesToo) {
  const auto schedule = interleaved_one_forward_one_backward(3, 6, 2);
  const auto digest = [](const PipelineSchedule& one) { return TermsOf(one).digest; };
  const auto first_send = [](PipelineSchedule& one) -> PipelineTransfer& {
    for (auto& exchanges : one.exchanges.at(0)) {
      for (auto& exchange : exchanges) {
        if (!exchange.sends.empty()) return exchange.sends.front();
      }
    }
    throw std::logic_error("stage 0 sends nothing");
  };
  auto unplanned = schedule, other_stage = schedule, other_action = schedule;
  unplanned.exchanges.clear();
  first_send(other_stage).to = 2;
  first_send(other_action).made_by.microbatch += 1;
  for (const auto* const changed : {&unplanned, &other_stage, &other_action})
    EXPECT_NE(digest(*changed), digest(schedule));
  EXPECT_EQ(digest(schedule), digest(interleaved_one_forward_one_backward(3, 6, 2)));
}

TEST(PipelineNegotiation, TheEndsTakeAndGiveNothing) {
  EXPECT_TRUE(Refused([](auto& terms) { terms[0].takes = kSix; }, tuttiInvalidUsage,
                      {"stage 0 takes float32 [2, 3]", "no stage comes before it"}));
  EXPECT_TRUE(Refused([](auto& terms) { terms[2].gives = kSix; }, tuttiInvalidUsage,
                      {"stage 2 gives float32 [2, 3]", "no stage comes after it"}));
}

TEST(PipelineNegotiation, AStagesOwnTroubleComesBeforeItsShapes) {
  EXPECT_TRUE(Refused([](auto& terms) { terms[1].trouble = "no memory", terms[1].takes.reset(); }, tuttiInvalidArgument,
                      {"stage 1: no memory"}));
}

}  // namespace
}  // namespace tutti::parallel
