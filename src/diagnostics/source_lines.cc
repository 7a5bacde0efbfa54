#include "src/diagnostics/source_lines.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "base/file_descriptor.h"
#include "base/plain_text.h"
#include "base/shared_library.h"

namespace tutti::diagnostics {

// The few declarations needed of libdwfl's stable interface, by elfutils' headers. (Named, because a member of a class
// must not have a type of an unnamed namespace.)
namespace libdwfl {

struct Dwfl;
struct DwflModule;
struct DwflLine;
struct Elf;
using Address = std::uint64_t;
struct Callbacks {
  int (*find_elf)(DwflModule*, void**, const char*, Address, char**, Elf**) = nullptr;
  int (*find_debuginfo)(DwflModule*, void**, const char*, Address, const char*, const char*, std::uint32_t,
                        char**) = nullptr;
  int (*section_address)(DwflModule*, void**, const char*, Address, const char*, std::uint32_t, const void*,
                         Address*) = nullptr;
  char** debuginfo_path = nullptr;
};

struct Library {
  Dwfl* (*begin)(const Callbacks*) = nullptr;
  void (*end)(Dwfl*) = nullptr;
  DwflModule* (*report_offline)(Dwfl*, const char* name, const char* file, int descriptor) = nullptr;
  int (*report_end)(Dwfl*, int (*removed)(DwflModule*, void*, const char*, Address, void*), void*) = nullptr;
  Elf* (*getelf)(DwflModule*, Address* bias) = nullptr;
  int (*build_id)(DwflModule*, const unsigned char** bits, Address* at) = nullptr;
  DwflLine* (*getsrc)(DwflModule*, Address) = nullptr;
  const char* (*lineinfo)(DwflLine*, Address*, int* line, int* column, Address*, Address*) = nullptr;
  const char* (*addrname)(DwflModule*, Address) = nullptr;
  decltype(Callbacks::find_debuginfo) build_id_find_debuginfo = nullptr;
  decltype(Callbacks::section_address) offline_section_address = nullptr;
  bool usable = false;

  Library() {
    SharedLibrary library("libdw.so.1");
    if (!library) return;
    library.Find(begin, "dwfl_begin");
    library.Find(end, "dwfl_end");
    library.Find(report_offline, "dwfl_report_offline");
    library.Find(report_end, "dwfl_report_end");
    library.Find(getelf, "dwfl_module_getelf");
    library.Find(build_id, "dwfl_module_build_id");
    library.Find(getsrc, "dwfl_module_getsrc");
    library.Find(lineinfo, "dwfl_lineinfo");
    library.Find(addrname, "dwfl_module_addrname");
    // Separate files of debug information, but only of this host: dwfl_standard_find_debuginfo may ask servers.
    library.Find(build_id_find_debuginfo, "dwfl_build_id_find_debuginfo");
    library.Find(offline_section_address, "dwfl_offline_section_address");
    usable = library.missing().empty();
  }
};

}  // namespace libdwfl
namespace {

// Where the name itself begins, after a return type. (An operator that converts has a space in its name.)
std::size_t BeginOfName(std::string_view function) {
  const auto operator_at = function.starts_with("operator ") ? 0 : function.find("::operator ");
  const auto space = function.rfind(' ', operator_at);
  return space == std::string_view::npos ? 0 : space + 1;
}

// "f" of "int f<int>(int)": without types and arguments, which take a line each.
std::string ShortName(std::string name) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  for (auto at = name.find(kUnnamed); at != std::string::npos; at = name.find(kUnnamed))
    name.erase(at, kUnnamed.size());
  name.resize(std::min(name.size(), name.find(" [clone ")));
  // Without " const &".
  if (const auto arguments_end = name.rfind(')'); arguments_end != std::string::npos) name.resize(arguments_end + 1);
  std::string kept;
  int depth = 0;
  for (const char c : name) {
    if (c == '<' || c == '(' || c == '[') ++depth;
    if (depth == 0) kept += c;
    if (c == '>' || c == ')' || c == ']') --depth;
  }
  if (depth != 0 || kept.ends_with("operator")) return name;  // an operator of such characters
  return kept.substr(BeginOfName(kept));
}

std::string Demangled(const char* symbol) {
  // C's symbols are names as they are. The demangler also takes types: "f" is float.
  if (!std::string_view(symbol).starts_with("_Z")) return symbol;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                         &std::free);
  return name == nullptr ? symbol : ShortName(name.get());
}

std::string WithoutFolders(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// As "train.py:41" and "train+0x11f2" do.
bool EndsAsAPlace(std::string_view text) {
  text = text.substr(0, text.find_last_not_of("0123456789abcdef") + 1);
  return text.ends_with(':') || text.ends_with("+0x");
}

// Of the place in "place in function": both may contain a slash, and a path " in ".
std::size_t EndOfPlace(std::string_view site) {
  constexpr std::string_view kIn = " in ";
  auto end = site.rfind(kIn);
  while (end != std::string_view::npos && !EndsAsAPlace(site.substr(0, end))) {
    end = end == 0 ? std::string_view::npos : site.rfind(kIn, end - 1);
  }
  return std::min(end, site.size());
}

// A module's file. A peer has named it, so it must be a file of this user or of the system, and opening it must not wait.
FileDescriptor OpenModule(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat about {};
  if (!file || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return {};
  constexpr uid_t kRoot = 0;
  if (about.st_uid != geteuid() && about.st_uid != kRoot) return {};
  return file;
}

// "place in function".
std::string In(const std::string& place, const std::string& function) {
  return function.empty() ? place : fmt::format("{} in {}", place, function);
}

}  // namespace

// The modules that were read so far.
class SourceLines::Modules {
 public:
  Modules() {
    if (!library_.usable) return;
    callbacks_.find_debuginfo = library_.build_id_find_debuginfo;
    callbacks_.section_address = library_.offline_section_address;
    dwfl_ = library_.begin(&callbacks_);
  }
  ~Modules() {
    if (dwfl_ != nullptr) library_.end(dwfl_);
  }
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  std::string Resolve(const ring::CallSite& site) {
    std::string place = fmt::format("{}+{:#x}", site.module, site.offset);
    std::string function = Demangled(site.words.c_str());
    if (auto* const module = Find(site)) {
      libdwfl::Address bias = 0;
      if (library_.getelf(module, &bias) != nullptr) {
        const auto address = site.offset + bias;
        if (const char* const symbol = library_.addrname(module, address)) function = Demangled(symbol);
        int number = 0;
        auto* const line = library_.getsrc(module, address);
        const char* const file =
            line == nullptr ? nullptr : library_.lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
        if (file != nullptr && number > 0) place = fmt::format("{}:{}", file, number);
      }
    }
    return In(place, function);
  }

 private:
  // Null unless the file is here and of the same build.
  libdwfl::DwflModule* Find(const ring::CallSite& site) {
    if (dwfl_ == nullptr || site.build == 0 || site.module.front() != '/') return nullptr;
    const auto [known, is_new] = modules_.try_emplace(site.module);
    auto& module = known->second;
    if (is_new) {
      if (auto file = OpenModule(site.module)) {
        // Takes the descriptor if it succeeds.
        module = library_.report_offline(dwfl_, "", site.module.c_str(), file.get());
        if (module != nullptr) static_cast<void>(file.Release());
      }
      library_.report_end(dwfl_, nullptr, nullptr);
    }
    if (module == nullptr) return nullptr;
    const unsigned char* bits = nullptr;
    libdwfl::Address at = 0;
    const int size = library_.build_id(module, &bits, &at);
    std::uint64_t build = 0;
    if (size > 0) std::memcpy(&build, bits, std::min(sizeof build, static_cast<std::size_t>(size)));
    return build == site.build ? module : nullptr;
  }

  libdwfl::Library library_;
  libdwfl::Callbacks callbacks_;
  libdwfl::Dwfl* dwfl_ = nullptr;
  std::map<std::string, libdwfl::DwflModule*> modules_;  // by path
};

SourceLines::SourceLines() = default;
SourceLines::~SourceLines() = default;

std::string SourceLines::Describe(const ring::CallSiteTable& table, std::uint32_t site) {
  const auto found = ring::ReadCallSite(table, site);
  if (!found) return "";
  if (found->module.empty()) return Printable(found->words);
  const std::lock_guard lock(mutex_);
  if (modules_ == nullptr) modules_ = std::make_unique<Modules>();
  return Printable(modules_->Resolve(*found));
}

std::string AtSite(const std::string& site) {
  if (site.empty()) return "";
  const auto place = site.substr(0, EndOfPlace(site));
  return fmt::format(" at {}{}", WithoutFolders(place), site.substr(place.size()));
}

}  // namespace tutti::diagnostics
