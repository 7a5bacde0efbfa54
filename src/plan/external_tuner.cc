#include "src/plan/external_tuner.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/error.h"

namespace tutti::plan {
namespace {

// The names are literals, so they end with a zero.
const char* TextOf(std::string_view literal) { return literal.data(); }

tuttiTunedCall_t Told(const Operation& operation, std::size_t bytes, int nranks) {
  return {TextOf(schedule::NameOf(operation.collective)), bytes, nranks};
}

}  // namespace

std::unique_ptr<ExternalTuner> ExternalTuner::Open(const tuttiCommFacts_t& facts) {
  const auto& hooks = TheExtension();
  const char* const name = hooks.tuner == nullptr ? nullptr : hooks.tuner();
  if (name == nullptr) return nullptr;
  void* context = nullptr;
  RequireSuccess(hooks.openTuner, &facts, &context);
  return std::unique_ptr<ExternalTuner>(new ExternalTuner(name, context));
}

ExternalTuner::~ExternalTuner() { TheExtension().closeTuner(context_); }

Choice ExternalTuner::Choose(Pricing& pricing, const Operation& asked, const cost_model::Kind& kind, std::size_t bytes,
                             Choice usual) const {
  // The plan of a barrier is another collective's, and only some ranks know a v-form's lengths.
  if (!asked.plain() || asked.collective == schedule::Collective::barrier) return usual;
  auto& tuner = pricing.tuner();
  const auto estimates = tuner.Offers(kind, bytes);
  std::vector<tuttiOffer_t> offers;
  int like_usual = -1;
  for (const auto& each : estimates) {
    if (each.algorithm == usual.candidate.algorithm && each.candidate.channels == usual.candidate.channels &&
        each.candidate.config.protocol == usual.candidate.config.protocol) {
      like_usual = static_cast<int>(offers.size());
    }
    offers.push_back({each.algorithm, TextOf(ring::NameOf(each.candidate.config.protocol)),
                      tuner.ChannelsOf(each.candidate, kind.collective), each.us});
  }
  const auto call = Told(asked, bytes, tuner.tuning().nranks);
  const int chosen = TheExtension().choose(context_, &call, offers.data(), static_cast<int>(offers.size()), like_usual);
  if (chosen < 0) return usual;
  if (chosen >= static_cast<int>(offers.size())) {
    Throw(tuttiInternalError, "the tuner {} chose plan {} of {}", name_, chosen, offers.size());
  }
  const auto& taken = estimates[static_cast<std::size_t>(chosen)];
  return {taken.candidate, fmt::format("chosen by the tuner plug-in {}; predicted {:.1f} us", name_, taken.us)};
}

bool WantsPlans() {
  const auto& hooks = TheExtension();
  return hooks.planned != nullptr && hooks.wantsPlans != nullptr && hooks.wantsPlans() != 0;
}

void ReportPlan(int rank, int nranks, const Operation& asked, const Choice& choice, std::size_t channels) {
  if (asked.point_to_point() || asked.collective == schedule::Collective::barrier) return;
  const auto call = Told(asked, LargestBlockBytes(asked), nranks);
  const tuttiOffer_t plan{choice.candidate.algorithm, TextOf(ring::NameOf(choice.candidate.config.protocol)),
                          static_cast<int>(channels), 0};
  TheExtension().planned(rank, &call, &plan);
}

}  // namespace tutti::plan
