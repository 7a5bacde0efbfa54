// The sites where this rank's calls are made, numbered as they are first seen and written where peers can read them
// (transports/ring/call_site.h).
//
// Thread-safety: the thread that drives the communicator.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "src/plan/call_site.h"
#include "transports/ring/control_block.h"

namespace tutti::diagnostics {

class CallSites {
 public:
  struct Found {
    std::uint32_t number = 0;  // 0: unknown
    bool is_new = false;       // another site may have lost its number
  };

  explicit CallSites(ring::ControlBlock& control) : control_(control) {}

  // Of plan::CurrentSite(). `text`: CurrentSiteText() of then; null if this thread is still in the call.
  Found NumberOf(std::uint64_t site, const std::shared_ptr<const std::string>& text) noexcept;

 private:
  // Of a site in machine code.
  const ring::CallSite& Resolved(std::uint64_t site);
  // Another module may have taken the addresses of one that is gone.
  void ForgetUnloadedModules();
  std::uint32_t Add(std::uint64_t key, const ring::CallSite& site);
  std::uint32_t FreeNumber() const;

  ring::ControlBlock& control_;
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // by site
  std::array<std::uint64_t, ring::kCallSites> keys_{};        // by number modulo kCallSites; 0: none
  std::uint32_t newest_ = 0;
  std::unordered_map<std::uint64_t, ring::CallSite> resolved_;  // by site in machine code, also without a number
  std::uint64_t unloadings_ = 0;                                // of modules, when resolved_ was last looked at
};

}  // namespace tutti::diagnostics
