// Decides when a rank compares its collectives with other ranks' although it waits for none of them: a broadcasting
// root gets nothing from other ranks, so two ranks that both act as root would not notice.
//
// After a collective that may end alone (operation.h), every few operations the rank looks at one other rank of this
// host, the witness, until the witness has begun the same collective. All ranks of a host have the same witness, except
// the witness itself, which has another. So of two ranks that differ, at least one differs from its own witness. It fails,
// and counts its failure in the control block of the host's first rank, where the audits of the others see it.
//
// Thread-safety: used by one thread at a time, the one that drives the communicator.
#pragma once

#include <optional>
#include <vector>

#include "src/diagnostics/history.h"
#include "src/plan/operation.h"
#include "transports/shm/fabric.h"

namespace tutti::diagnostics {

class Audit {
 public:
  // Operations between two looks: reading another core's cache line costs as much as a small operation.
  static constexpr int kEvery = 8;

  Audit(const shm::Fabric& fabric, History& history);

  // Called after each operation. True if it is time to look.
  bool Due(const plan::Operation& operation) {
    if (plan::MayEndAlone(operation)) {
      alone_ = history_.newest();
      open_ = true;
    }
    return open_ && ++operations_ >= kEvery;
  }
  // Returns a rank whose collectives differ from this one's. Looks at the witness, and at marks from other hosts.
  std::optional<int> Look();
  // Likewise, but looks at every rank.
  std::optional<int> LookAtAll();
  // Each rank of this host that still makes calls has begun the last collective that may have ended alone here.
  bool Settled() const;
  // Some rank of this host has failed.
  bool SomeoneFailed() const { return failures_.load(std::memory_order_acquire) != 0; }

 private:
  const shm::Fabric& fabric_;
  History& history_;
  const std::atomic<std::uint32_t>& failures_;
  std::vector<int> remote_;  // ranks of other hosts
  int witness_ = -1;  // none: this rank is alone on its host
  bool open_ = false;
  std::uint32_t alone_ = 0;  // the last collective that may have ended alone; 0: there was none
  int operations_ = 0;       // since the last look
};

}  // namespace tutti::diagnostics
