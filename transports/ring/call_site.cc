#include "transports/ring/call_site.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#include "transports/ring/sequence_lock.h"

namespace tutti::ring {
namespace {

// A text that begins with a file's path, without the first folders where it is too long, or the beginning of what is left
// without any.
std::string_view Fitting(std::string_view text, std::size_t most) {
  if (text.size() > most) {
    const auto folder = text.find('/', text.size() - most - 1);  // what follows it fits
    text.remove_prefix((folder == std::string_view::npos ? text.rfind('/') : folder) + 1);
  }
  return text.substr(0, most);
}

// What an entry's number locks.
auto SiteWords(auto& entry) { return std::tie(entry.offset, entry.build, entry.text); }

}  // namespace

void WriteCallSite(CallSiteTable& table, std::uint32_t number, const CallSite& site) {
  constexpr std::size_t kEnds = 2;
  const auto module = Fitting(site.module, kSiteText - kEnds);
  const auto words = Fitting(site.words, kSiteText - kEnds - module.size());
  std::array<char, kSiteText> text{};
  std::copy(words.begin(), words.end(), text.begin());
  std::copy(module.begin(), module.end(), text.begin() + static_cast<std::ptrdiff_t>(words.size()) + 1);
  std::array<std::uint64_t, kSiteWords> packed;
  std::memcpy(packed.data(), text.data(), text.size());
  auto& entry = table[number % kCallSites];
  WriteWhole(entry.number, number, SiteWords(entry), site.offset, site.build, packed);
}

std::optional<CallSite> ReadCallSite(const CallSiteTable& table, std::uint32_t number) {
  const auto& entry = table[number % kCallSites];
  const auto whole = ReadWhole(entry.number, number, SiteWords(entry));
  if (!whole) return std::nullopt;
  CallSite site;
  std::array<std::uint64_t, kSiteWords> packed;
  std::tie(site.offset, site.build, packed) = *whole;
  std::array<char, kSiteText> text;
  std::memcpy(text.data(), packed.data(), text.size());
  site.words.assign(text.data(), strnlen(text.data(), text.size()));
  if (const auto next = site.words.size() + 1; next < text.size()) {
    site.module.assign(text.data() + next, strnlen(text.data() + next, text.size() - next));
  }
  return site;
}

}  // namespace tutti::ring
