#include "transports/ring/call_site.h"

#include <algorithm>
#include <cstring>
#include <string_view>

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
  // A sequence lock, as WriteRecord's (control_block.h).
  constexpr auto release = std::memory_order_release;
  auto& entry = table[number % kCallSites];
  entry.number.store(0, std::memory_order_relaxed);
  entry.offset.store(site.offset, release);
  entry.build.store(site.build, release);
  for (std::size_t i = 0; i < kSiteWords; ++i) entry.text[i].store(packed[i], release);
  entry.number.store(number, release);
}

std::optional<CallSite> ReadCallSite(const CallSiteTable& table, std::uint32_t number) {
  constexpr auto acquire = std::memory_order_acquire;
  const auto& entry = table[number % kCallSites];
  if (number == 0 || entry.number.load(acquire) != number) return std::nullopt;
  CallSite site;
  site.offset = entry.offset.load(acquire);
  site.build = entry.build.load(acquire);
  std::array<std::uint64_t, kSiteWords> packed;
  for (std::size_t i = 0; i < kSiteWords; ++i) packed[i] = entry.text[i].load(acquire);
  if (entry.number.load(acquire) != number) return std::nullopt;
  std::array<char, kSiteText> text;
  std::memcpy(text.data(), packed.data(), text.size());
  site.words.assign(text.data(), strnlen(text.data(), text.size()));
  if (const auto next = site.words.size() + 1; next < text.size()) {
    site.module.assign(text.data() + next, strnlen(text.data() + next, text.size() - next));
  }
  return site;
}

}  // namespace tutti::ring
