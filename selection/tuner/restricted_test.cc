// Choices among what the user leaves: sets of algorithms, protocols left out, bounds on channels; and the offers to a
// tuner from outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "selection/cost_model/host_machine.h"
#include "selection/tuner/tuner.h"

namespace tutti::tuner {
namespace {

constexpr cost_model::Kind kAllReduce{schedule::Collective::all_reduce};
constexpr cost_model::Kind kLowPrecision{schedule::Collective::all_reduce, true};

cost_model::TuningContext ContextOf(int nranks, const std::string& algorithms = "") {
  cost_model::TuningContext tuning;
  tuning.nranks = nranks;
  tuning.max_channels = 8;
  tuning.threads = 1;
  tuning.bulk_capacity = 200'000;
  cost_model::ParseForcedAlgorithms(algorithms, nranks, tuning.forced);
  return tuning;
}

cost_model::Machine HostOf(int nranks) {
  return cost_model::HostMachine(cost_model::DefaultHostCosts(4), schedule::ArrangeEvenly(nranks, 1));
}

// The algorithms that may serve.
std::set<tuttiAlgorithm_t> Serving(const cost_model::TuningContext& tuning, const cost_model::Kind& kind) {
  std::set<tuttiAlgorithm_t> serving;
  for (int i = tuttiAlgorithmNone + 1; i < tuttiNumAlgorithms; ++i) {
    const auto algorithm = static_cast<tuttiAlgorithm_t>(i);
    if (cost_model::WhyNot(algorithm, kind, tuning).empty()) serving.insert(algorithm);
  }
  return serving;
}

using Algorithms = std::set<tuttiAlgorithm_t>;

TEST(Restricted, AlgorithmsAreChosenAmongThoseNamed) {
  EXPECT_EQ(Serving(ContextOf(4, "ring+direct"), kAllReduce), (Algorithms{tuttiAlgorithmRing, tuttiAlgorithmDirect}));
  const cost_model::Kind scatter{schedule::Collective::scatter};
  EXPECT_EQ(Serving(ContextOf(4, "all_reduce:ring+direct"), scatter), Serving(ContextOf(4), scatter));
  EXPECT_EQ(Serving(ContextOf(4, "ring+direct,all_reduce:two_shot+ring"), kAllReduce),
            (Algorithms{tuttiAlgorithmRing, tuttiAlgorithmTwoShot}));
}

TEST(Restricted, AlgorithmsAreLeftOut) {
  auto all = Serving(ContextOf(4), kAllReduce);
  all.erase(tuttiAlgorithmRing);
  all.erase(tuttiAlgorithmDirect);
  EXPECT_EQ(Serving(ContextOf(4, "^ring+direct"), kAllReduce), all);
  EXPECT_FALSE(Serving(ContextOf(4, "^ring"), kAllReduce).contains(tuttiAlgorithmParameterServer))
      << "a baseline stays one";
  EXPECT_EQ(cost_model::WhyNot(tuttiAlgorithmRing, kAllReduce, ContextOf(4, "^ring")), "is left out by TUTTI_ALGO");
}

TEST(Restricted, NothingIsLeftOutWhereNothingWouldBeLeft) {
  // Bruck's algorithm has no all-reduce, and two-level ones need several nodes.
  EXPECT_EQ(Serving(ContextOf(4, "bruck+two_level"), kAllReduce), Serving(ContextOf(4), kAllReduce));
}

TEST(Restricted, SumsAreRoundedOnTheirWayOnlyIfTheUserLeavesNoOtherWay) {
  const Algorithms exact{tuttiAlgorithmDirect, tuttiAlgorithmTwoShot};
  EXPECT_EQ(Serving(ContextOf(4), kLowPrecision), exact);
  EXPECT_EQ(Serving(ContextOf(4, "^direct"), kLowPrecision), Algorithms{tuttiAlgorithmTwoShot});
  EXPECT_EQ(Serving(ContextOf(4, "ring+double_binary_tree"), kLowPrecision),
            (Algorithms{tuttiAlgorithmRing, tuttiAlgorithmDoubleBinaryTree}));
}

TEST(Restricted, UnknownWordsAreRefused) {
  for (const char* text : {"^", "ring+", "^ring+quick", "all_reduce:^", "+ring", "ring+direct,"}) {
    cost_model::Forced forced;
    if (std::string_view(text).ends_with(',')) {
      EXPECT_NO_THROW(cost_model::ParseForcedAlgorithms(text, 4, forced));  // as before: a last comma ends the list
    } else {
      EXPECT_THROW(cost_model::ParseForcedAlgorithms(text, 4, forced), Error) << text;
    }
  }
}

std::set<ring::Protocol> ProtocolsOf(const cost_model::TuningContext& tuning, std::size_t bytes) {
  std::set<ring::Protocol> protocols;
  for (const auto& way : cost_model::WaysToMove(tuttiAlgorithmDirect, kAllReduce, tuning, bytes, {})) {
    protocols.insert(way.config.protocol);
  }
  return protocols;
}

TEST(Restricted, AProtocolIsLeftOutWhereThereIsAnother) {
  using enum ring::Protocol;
  auto tuning = ContextOf(4);
  const auto with = [&](const char* text, std::size_t bytes) {
    tuning.forced = {};
    cost_model::ParseForcedProtocol(text, tuning.forced);
    return ProtocolsOf(tuning, bytes);
  };
  EXPECT_EQ(with("", 8), (std::set{line, inlined, bulk}));
  EXPECT_EQ(with("^line", 8), (std::set{inlined, bulk}));
  EXPECT_EQ(with("^bulk", 8), (std::set{line, inlined}));
  EXPECT_EQ(with("^inline", 1000), std::set{bulk});
  EXPECT_EQ(with("^bulk", 1 << 20), std::set{inlined}) << "in pieces";
  EXPECT_EQ(with("line", 8), std::set{line});
}

TEST(Restricted, AProtocolIsLeftOutOnGpus) {
  using enum ring::Protocol;
  auto tuning = ContextOf(2);
  cost_model::FitToGpus(132, 1, false, tuning);
  tuning.gpu_slots = {true, true, 8 << 10, 64 << 10, 512 << 10};
  cost_model::ParseForcedProtocol("^bulk", tuning.forced);
  EXPECT_EQ(ProtocolsOf(tuning, 4 << 10), (std::set{line, inlined}));
  EXPECT_EQ(ProtocolsOf(tuning, 1 << 30), std::set{inlined});
  tuning.gpu_slots.inlines = false;
  EXPECT_EQ(ProtocolsOf(tuning, 1 << 30), std::set{line});
  tuning.gpu_slots.lines = false;
  EXPECT_EQ(ProtocolsOf(tuning, 1 << 30), std::set{bulk}) << "there is no other";
}

std::set<int> ChannelsOf(const cost_model::TuningContext& tuning) {
  std::set<int> channels;
  for (const auto& way : cost_model::WaysToMove(tuttiAlgorithmRing, kAllReduce, tuning, 1 << 20, {})) {
    channels.insert(way.channels);
  }
  return channels;
}

TEST(Restricted, ChannelsStayInTheirBounds) {
  auto tuning = ContextOf(4);
  tuning.threads = 6;
  EXPECT_EQ(ChannelsOf(tuning), (std::set{1, 6}));
  tuning.forced.most_channels = 4;
  EXPECT_EQ(ChannelsOf(tuning), (std::set{1, 4}));
  tuning.forced.least_channels = 2;
  EXPECT_EQ(ChannelsOf(tuning), (std::set{2, 4}));
  tuning.forced.least_channels = 7;
  EXPECT_EQ(ChannelsOf(tuning), std::set{4}) << "the most wins";
  cost_model::TuningContext gpus = ContextOf(2);
  cost_model::FitToGpus(132, 1, false, gpus);
  gpus.forced.least_channels = 4;
  gpus.forced.most_channels = 16;
  EXPECT_EQ(ChannelsOf(gpus), (std::set{4, 12, 16}));
}

TEST(Restricted, OffersAreTheBestOfEachAlgorithmProtocolAndNumberOfChannels) {
  auto tuning = ContextOf(4);
  tuning.threads = 2;
  const auto machine = HostOf(4);
  Tuner tuner(machine, tuning);
  const auto offers = tuner.Offers(kAllReduce, 1 << 16);
  std::set<std::tuple<tuttiAlgorithm_t, ring::Protocol, int>> seen;
  for (const auto& offer : offers) {
    EXPECT_TRUE(seen.emplace(offer.algorithm, offer.candidate.config.protocol, offer.candidate.channels).second);
    EXPECT_DOUBLE_EQ(offer.us, tuner.Microseconds(offer.candidate, kAllReduce, 1 << 16));
    for (const auto& way : cost_model::WaysToMove(offer.algorithm, kAllReduce, tuning, 1 << 16, {})) {
      if (way.channels != offer.candidate.channels || way.config.protocol != offer.candidate.config.protocol) continue;
      if (offer.algorithm != tuttiAlgorithmDirect) continue;  // of the others, the candidates are a part's
      EXPECT_LE(offer.us, tuner.Microseconds(way, kAllReduce, 1 << 16));
    }
  }
  EXPECT_EQ(tuner.Compare(kAllReduce, 1 << 16).front().us,
            std::ranges::min(offers, {}, [](const Estimate& offer) { return offer.us; }).us);
}

}  // namespace
}  // namespace tutti::tuner
