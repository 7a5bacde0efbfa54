// Where the current call of this thread was made: the site that a library on top names (tutti/extension.h), or the
// address to which the C function returns.
//
// Thread-safety: each thread has its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace tutti::plan {

// A named site's key has this bit. No address of a program has it.
inline constexpr std::uint64_t kNamedSite = std::uint64_t{1} << 63;

struct NamedSite {
  std::uint64_t key = 0;  // 0: none is named
  const char* text = nullptr;
};
// Every call looks at it, so it needs no constructor, and the static TLS model no call.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local NamedSite named_site;

// The key of the current call's site. `returns_to`: the address to which the C function returns.
inline std::uint64_t CurrentSite(const void* returns_to) {
  return named_site.key != 0 ? named_site.key : reinterpret_cast<std::uintptr_t>(returns_to);
}
// The words of that site; null if its key is an address.
std::shared_ptr<const std::string> CurrentSiteText();

// This thread's named site of now, for work that leaves the call: another thread does it, or the end of a group.
class KeptSite {
 public:
  KeptSite() : key_(named_site.key), text_(CurrentSiteText()) {}

  NamedSite site() const { return {key_, text_ == nullptr ? nullptr : text_->c_str()}; }

 private:
  std::uint64_t key_;
  std::shared_ptr<const std::string> text_;
};

// While this lives, this thread does the work of a call that was made at `kept`, which outlives it.
class WorkOf {
 public:
  explicit WorkOf(const KeptSite& kept) : before_(std::exchange(named_site, kept.site())) {}
  ~WorkOf() { named_site = before_; }
  WorkOf(const WorkOf&) = delete;
  WorkOf& operator=(const WorkOf&) = delete;

 private:
  const NamedSite before_;
};

}  // namespace tutti::plan
