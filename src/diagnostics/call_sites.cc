#include "src/diagnostics/call_sites.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <bitset>
#include <cstring>
#include <exception>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "base/numbers/rounding.h"

namespace tutti::diagnostics {
namespace {

// The first bytes of the build id in a module's notes; 0: there is none.
std::uint64_t BuildIn(std::string_view notes) {
  constexpr std::size_t kAlignment = 4;
  constexpr std::string_view kOwner("GNU\0", 4);
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    const auto id_at = sizeof note + RoundUp(std::size_t{note.n_namesz}, kAlignment);
    const auto end = id_at + RoundUp(std::size_t{note.n_descsz}, kAlignment);
    if (end > notes.size()) return 0;
    if (note.n_type == NT_GNU_BUILD_ID && notes.substr(sizeof note, note.n_namesz) == kOwner) {
      std::uint64_t build = 0;
      std::memcpy(&build, notes.data() + id_at, std::min(sizeof build, std::size_t{note.n_descsz}));
      return build;
    }
    notes.remove_prefix(end);
  }
  return 0;
}

struct ModuleAt {
  std::uint64_t address;
  std::uint64_t build = 0;
};

// For dl_iterate_phdr: whether the module contains the address; then its build id.
int LookAtModule(dl_phdr_info* module, std::size_t, void* context) {
  auto& wanted = *static_cast<ModuleAt*>(context);
  const std::span headers(module->dlpi_phdr, module->dlpi_phnum);
  const auto contains = [&](const ElfW(Phdr) & header) {
    return header.p_type == PT_LOAD && wanted.address - (module->dlpi_addr + header.p_vaddr) < header.p_memsz;
  };
  if (std::ranges::none_of(headers, contains)) return 0;
  for (const auto& header : headers) {
    if (header.p_type != PT_NOTE || wanted.build != 0) continue;
    wanted.build = BuildIn({reinterpret_cast<const char*>(module->dlpi_addr + header.p_vaddr), header.p_memsz});
  }
  return 1;
}

std::string ProgramPath() {
  std::error_code unreadable;
  return std::filesystem::read_symlink("/proc/self/exe", unreadable).string();
}

// Where a call in machine code is, by the address to which it returns.
ring::CallSite MachineSite(std::uint64_t returns_to) {
  const auto address = returns_to - 1;  // in the call itself: what follows may be on another line
  Dl_info info{};
  void* extra = nullptr;
  if (dladdr1(reinterpret_cast<const void*>(address), &info, &extra, RTLD_DL_LINKMAP) == 0) return {};
  const auto& map = *static_cast<const link_map*>(extra);
  ModuleAt module{address};
  dl_iterate_phdr(&LookAtModule, &module);
  const bool is_program = map.l_name == nullptr || *map.l_name == '\0';
  return {info.dli_sname == nullptr ? "" : info.dli_sname, is_program ? ProgramPath() : map.l_name,
          address - map.l_addr, module.build};
}

bool IsNamed(std::uint64_t site) { return (site & plan::kNamedSite) != 0; }

ring::CallSite NamedSite(const std::shared_ptr<const std::string>& text) {
  const auto words = text != nullptr ? text : plan::CurrentSiteText();
  return {words == nullptr ? "" : *words, "", 0, 0};
}

// How often this process has unloaded modules.
std::uint64_t Unloadings() {
  std::uint64_t unloadings = 0;
  const auto look_at_first = [](dl_phdr_info* module, std::size_t, void* context) {
    *static_cast<std::uint64_t*>(context) = module->dlpi_subs;
    return 1;
  };
  dl_iterate_phdr(look_at_first, &unloadings);
  return unloadings;
}

// How many sites stay resolved: more than a large program has, and less than a megabyte.
constexpr std::size_t kMostResolved = 2048;

}  // namespace

CallSites::Found CallSites::NumberOf(std::uint64_t site, const std::shared_ptr<const std::string>& text) noexcept {
  if (site == 0) return {};
  if (const auto known = numbers_.find(site); known != numbers_.end()) return {known->second};
  try {
    if (IsNamed(site)) return {Add(site, NamedSite(text)), true};
    ForgetUnloadedModules();
    return {Add(site, Resolved(site)), true};
  } catch (const std::exception&) {
    return {};  // out of memory: a call that could run does not fail for want of its line
  }
}

// To find a function's symbol, all of a module's may have to be compared.
const ring::CallSite& CallSites::Resolved(std::uint64_t site) {
  if (const auto known = resolved_.find(site); known != resolved_.end()) return known->second;
  if (resolved_.size() == kMostResolved) resolved_.clear();
  return resolved_.emplace(site, MachineSite(site)).first->second;
}

void CallSites::ForgetUnloadedModules() {
  const auto unloadings = Unloadings();
  if (unloadings == unloadings_) return;
  unloadings_ = unloadings;
  resolved_.clear();
  for (auto& key : keys_) {
    if (key == 0 || IsNamed(key)) continue;
    numbers_.erase(key);
    key = 0;
  }
}

std::uint32_t CallSites::Add(std::uint64_t key, const ring::CallSite& site) {
  const auto number = FreeNumber();
  auto& place = keys_[number % ring::kCallSites];
  numbers_.erase(place);
  place = 0;
  numbers_.emplace(key, number);
  place = key;
  newest_ = number;
  ring::WriteCallSite(control_.sites, number, site);
  return number;
}

// The next whose place no kept record names: there are more places than records.
std::uint32_t CallSites::FreeNumber() const {
  std::bitset<ring::kCallSites> named;
  for (const auto& record : control_.records) {
    named.set(ring::SiteIn(record.origin.load(std::memory_order_relaxed)) % ring::kCallSites);
  }
  auto number = newest_ + 1;
  while (number == 0 || named[number % ring::kCallSites]) ++number;
  return number;
}

}  // namespace tutti::diagnostics
