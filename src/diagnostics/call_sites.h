// The sites where this rank's calls are made, numbered as they are first seen and written where peers can read them
// (transports/ring/call_site.h).
//
// Thread-safety: the thread that drives the communicator.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "src/plan/operation.h"
#include "transports/ring/control_block.h"

namespace tutti::diagnostics {

class CallSites {
 public:
  struct Found {
    std::uint32_t number = 0;  // 0: unknown
    bool is_new = false;       // another site may have lost its number
  };

  explicit CallSites(ring::ControlBlock& control) : control_(control) {}

  // The number of the site where `operation` was called.
  Found NumberOf(const plan::Operation& operation) noexcept;

 private:
  std::uint32_t Add(std::uint64_t key, const ring::CallSite& site);
  std::uint32_t FreeNumber() const;

  ring::ControlBlock& control_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // by key
  std::array<std::uint64_t, ring::kCallSites> keys_{};        // by number modulo kCallSites; 0: none
  std::uint32_t newest_ = 0;
};

}  // namespace tutti::diagnostics
