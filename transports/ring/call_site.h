// The places in programs where ranks' calls are made, in each rank's control block: where its peers find them for
// messages, even after the process has died. A record of the flight recorder names its site by number.
//
// Thread-safety: one writer at a time; any thread and process may read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "transports/ring/slot.h"

namespace tutti::ring {

// A site in machine code is a place in a module, which a reader that has the same file resolves to a line. Of any other
// site the words tell all.
struct CallSite {
  std::string words;         // "/job/train.py:41 in step"; in machine code the function's symbol, or nothing
  std::string module;        // path of the program or library; empty: the words tell all
  std::uint64_t offset = 0;  // the call's address in the module's file
  std::uint64_t build = 0;   // the beginning of the module's build id; 0: it has none

  friend bool operator==(const CallSite&, const CallSite&) = default;
};

inline constexpr std::size_t kSiteWords = 21;
// Of both texts, each with its end.
inline constexpr std::size_t kSiteText = kSiteWords * sizeof(std::uint64_t);

struct alignas(kCacheLine) CallSiteEntry {
  std::atomic<std::uint64_t> number;  // 1, 2, ...; 0: being written or never used
  std::atomic<std::uint64_t> offset;
  std::atomic<std::uint64_t> build;
  std::array<std::atomic<std::uint64_t>, kSiteWords> text;  // words, end, module, end
};
static_assert(sizeof(CallSiteEntry) == 3 * kCacheLine);

// More than a rank keeps records (control_block.h), so that one is always free.
inline constexpr std::uint32_t kCallSites = 144;
// By number modulo kCallSites.
using CallSiteTable = std::array<CallSiteEntry, kCallSites>;

// Writes site `number` in place of an earlier one. Texts that are too long, the words first, lose the first folders of
// their path, and if that is not enough their end.
void WriteCallSite(CallSiteTable& table, std::uint32_t number, const CallSite& site);
// Nothing if the site is being written or no longer kept. Another process may have written anything: the texts end, but may
// hold any byte.
std::optional<CallSite> ReadCallSite(const CallSiteTable& table, std::uint32_t number);

}  // namespace tutti::ring
