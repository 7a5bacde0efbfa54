// When a rank compares its collectives with other ranks', where nothing makes it wait for them: a root that broadcasts
// hears of nobody, and so do two roots that both do.
//
// After a collective that may end alone (operation.h) every few operations are followed by a look at one other rank of
// this host, the witness, until that has begun the same collective. All ranks of a host have the same witness (but for
// itself, whose witness is another), so that of two ranks that differ at least one differs from its own.
//
// Thread-safety: used by one thread at a time, the one that drives the communicator.
#pragma once

#include <optional>

#include "src/history.h"
#include "src/operation.h"
#include "transports/fabric.h"

namespace tutti {

class Audit {
 public:
  // Looks are that far apart: one line that another core has written costs as much as a small operation.
  static constexpr int kEvery = 8;

  Audit(const Fabric& fabric, History& history);

  // An operation has ended. True: it is time to look.
  bool Due(const Operation& operation) {
    if (MayEndAlone(operation)) {
      alone_ = history_.newest();
      open_ = true;
    }
    return open_ && ++operations_ >= kEvery;
  }
  // A rank whose collectives differ from this one's. Looks at the witness, and at what ranks of other hosts have told.
  std::optional<int> Look();
  // Likewise, at every rank.
  std::optional<int> LookAtAll();
  // Some rank of this host has failed.
  bool SomeoneFailed() const { return failures_.load(std::memory_order_acquire) != 0; }

 private:
  const Fabric& fabric_;
  History& history_;
  const std::atomic<std::uint32_t>& failures_;
  int witness_ = -1;  // none: this rank is alone on its host
  bool open_ = false;
  std::uint32_t alone_ = 0;  // the last collective that may have ended alone
  int operations_ = 0;       // since the last look
};

}  // namespace tutti
