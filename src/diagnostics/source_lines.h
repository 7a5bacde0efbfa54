// Where calls were made, in words: sites in machine code are resolved by the symbols and lines that the module's file
// contains.
//
// Thread-safety: any thread. Reading a large module takes a tenth of a second: only for messages.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "transports/ring/call_site.h"

namespace tutti::diagnostics {

// A site as words after a call, without folders: " at train.py:41 in step"; nothing if it is not known.
std::string AtSite(const std::string& site);

class SourceLines {
 public:
  SourceLines();
  ~SourceLines();
  SourceLines(const SourceLines&) = delete;
  SourceLines& operator=(const SourceLines&) = delete;

  // "/job/train.c:41 in step"; "/job/train+0x11f2 in step" or "/job/train+0x11f2" if the file does not tell, is another
  // one here, or the library that reads it (elfutils' libdw) is missing; empty if the site is not known. Printable.
  std::string Describe(const ring::CallSiteTable& table, std::uint32_t site);
  // The same for a sentence (AtSite).
  std::string At(const ring::CallSiteTable& table, std::uint32_t site) { return AtSite(Describe(table, site)); }

 private:
  class Modules;
  std::mutex mutex_;
  std::unique_ptr<Modules> modules_;  // under mutex_; null until one is read
};

}  // namespace tutti::diagnostics
