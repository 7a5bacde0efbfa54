#include "src/diagnostics/audit.h"

#include <algorithm>

namespace tutti::diagnostics {

Audit::Audit(const shm::Fabric& fabric, History& history)
    : fabric_(fabric), history_(history), failures_(fabric.control(fabric.local().front()).failures) {
  const auto& local = fabric.local();
  for (int r = 0; r < fabric.nranks(); ++r) {
    if (!fabric.is_local(r)) remote_.push_back(r);
  }
  if (local.size() > 1) witness_ = local[local.front() == fabric.rank() ? 1 : 0];
}

std::optional<int> Audit::Look() {
  operations_ = 0;
  if (witness_ < 0) {
    open_ = false;
  } else {
    if (history_.Contradicts(witness_)) return witness_;
    open_ = static_cast<std::int32_t>(history_.compared(witness_) - alone_) < 0;
  }
  for (const int r : remote_) {
    if (history_.Contradicts(r)) return r;
  }
  return std::nullopt;
}

std::optional<int> Audit::LookAtAll() {
  for (int r = 0; r < fabric_.nranks(); ++r) {
    if (r != fabric_.rank() && history_.Contradicts(r)) return r;
  }
  return std::nullopt;
}

bool Audit::Settled() const {
  return alone_ == 0 || std::ranges::all_of(fabric_.local(), [this](int r) {
           const auto& control = fabric_.control(r);
           return r == fabric_.rank() || control.state.load(std::memory_order_acquire) != ring::RankState::alive ||
                  static_cast<std::int32_t>(ring::MarkedSequence(control.mark.load(std::memory_order_acquire)) -
                                            alone_) >= 0;
         });
}

}  // namespace tutti::diagnostics
