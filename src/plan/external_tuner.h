// A tuner of the library on top (tutti/extension.h): it chooses among Tutti's priced plans. Every rank has one, and asks
// it once for each plan that it makes; that all get the same answer is checked by the calls' signatures (SignatureOf).
//
// Thread-safety: Choose by one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/extension.h"
#include "selection/tuner/tuner.h"
#include "src/plan/planned_call.h"

namespace tutti::plan {

// What the offers are priced on.
class Pricing {
 public:
  // `tuning` outlives this.
  Pricing(cost_model::Machine machine, const cost_model::TuningContext& tuning)
      : machine_(std::move(machine)), tuner_(machine_, tuning) {}
  Pricing(const Pricing&) = delete;
  Pricing& operator=(const Pricing&) = delete;
  tuner::Tuner& tuner() { return tuner_; }

 private:
  cost_model::Machine machine_;
  tuner::Tuner tuner_;
};

class ExternalTuner {
 public:
  // Null if the process has none. Throws the error with which it refuses the communicator.
  static std::unique_ptr<ExternalTuner> Open(const tuttiCommFacts_t& facts);
  ~ExternalTuner();
  ExternalTuner(const ExternalTuner&) = delete;
  ExternalTuner& operator=(const ExternalTuner&) = delete;

  // Its choice for such a call; `usual` if it leaves the choice to Tutti.
  Choice Choose(Pricing& pricing, const Operation& asked, const cost_model::Kind& kind, std::size_t bytes,
                Choice usual) const;

 private:
  ExternalTuner(std::string name, void* context) : name_(std::move(name)), context_(context) {}

  std::string name_;
  void* context_;  // the extension's; closed in the destructor
};

// For the `planned` hook, if this communicator is to call it.
void ReportPlan(int rank, int nranks, const Operation& asked, const Choice& choice, std::size_t channels);
bool WantsPlans();

}  // namespace tutti::plan
