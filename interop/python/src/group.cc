#include "group.h"

#include <utility>

namespace nb = nanobind;

namespace tutti_python {
namespace {

// A group belongs to its thread, as in the library.
constinit thread_local Group* innermost = nullptr;

}  // namespace

Group* Group::Open() { return innermost; }

Group::~Group() {
  if (innermost == this) innermost = outer_;
}

void Group::Begin() {
  if (begun_) Fail(tuttiInvalidUsage, "the group is open already");
  begun_ = true;
  outer_ = innermost;
  innermost = this;
}

bool Group::Leave() {
  if (!begun_ || innermost != this) {
    Fail(tuttiInvalidUsage, "a group ends in the thread that opened it, after the groups inside it");
  }
  begun_ = false;
  innermost = outer_;
  return innermost == nullptr;
}

void Group::Add(Call call, std::unique_ptr<Arrays> arrays) {
  calls_.push_back(std::move(call));
  kept_->arrays.push_back(std::move(arrays));
}

std::optional<Work> Group::End(Stream* stream) {
  const bool outermost = Leave();
  const auto calls = std::exchange(calls_, {});
  KeptPointer kept(new Kept);
  std::swap(kept, kept_);
  if (!outermost) {
    if (stream != nullptr) Fail(tuttiInvalidUsage, "only the outermost group takes a stream: it runs the calls of all");
    for (std::size_t i = 0; i < calls.size(); ++i) innermost->Add(calls[i], std::move(kept->arrays[i]));
    return std::nullopt;
  }
  if (stream != nullptr) return stream->Enqueue(calls, std::move(kept));
  Turns turns;
  for (const auto& call : calls) turns.TakeIfBusy(call.handle);
  turns.Await();
  Outcome outcome;
  {
    std::vector<std::unique_ptr<MainThreadInside>> inside;
    for (const auto& call : calls) inside.push_back(std::make_unique<MainThreadInside>(*call.handle));
    const nb::gil_scoped_release released;
    outcome = RunCalls(calls);
  }
  if (outcome.code != tuttiSuccess) {
    CheckSignals(kCtrlCEndedCall);
    Fail(outcome.code, outcome.message);
  }
  return std::nullopt;
}

void Group::Drop() {
  Leave();
  calls_.clear();
  kept_->arrays.clear();
}

}  // namespace tutti_python
