// TUTTI_TRACE: a timeline of this rank's operations, in the trace-event format of browsers' trace viewers.
//
// Thread-safety: used by the thread that drives the communicator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clocks/clock.h"
#include "tutti/tutti.h"

namespace tutti::diagnostics {

class Trace {
 public:
  // `path` may contain %r (the rank) and %p (the process). The destructor writes the file.
  Trace(const std::string& path, int rank, const std::string& communicator);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // One operation, from and to in Ticks() (base/clocks/clock.h).
  void Add(std::uint64_t call, std::uint64_t count, std::uint64_t sequence, tuttiAlgorithm_t algorithm,
           std::int64_t from, std::int64_t to);

 private:
  struct Event {
    std::uint64_t call, count, sequence;
    tuttiAlgorithm_t algorithm;
    std::int64_t from, to;
  };

  void Write() const;

  std::string path_;
  int rank_;
  std::string communicator_;
  TickCalendar calendar_;
  std::vector<Event> events_;
  std::uint64_t dropped_ = 0;
};

// `path` with %r and %p filled in.
std::string ExpandPath(const std::string& path, int rank);

}  // namespace tutti::diagnostics
