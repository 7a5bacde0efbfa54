#include "interop/pmpi/below.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "interop/pmpi/constants.h"

namespace tutti::pmpi {

constinit std::atomic<const Below*> the_below{nullptr};

namespace {

// A symbol that Open MPI's ABI consists of, and no other has.
constexpr const char* kMarkOfOpenMpi = "ompi_mpi_comm_world";
// MPI's own ABI, with other handles. MPICH puts it into a library of its own.
constexpr std::string_view kStandardAbi = "libmpi_abi";

#ifdef OMPI_MAJOR_VERSION
constexpr bool kForOpenMpi = true;
constexpr const char* kAbi = "Open MPI";
constexpr const char* kOther = "libtutti_pmpi_mpich.so";
#else
constexpr bool kForOpenMpi = false;
constexpr const char* kAbi = "MPICH and Intel MPI";
constexpr const char* kOther = "libtutti_pmpi_openmpi.so";
#endif

[[noreturn]] void Refuse(const std::string& why) {
  std::fprintf(stderr, "tutti-mpi: %s\n", why.c_str());
  std::exit(EXIT_FAILURE);
}

// A handle for dlsym() of the object that holds the address; null: there is none.
void* ObjectOf(const void* address) {
  Dl_info object{};
  if (dladdr(address, &object) == 0 || object.dli_fname == nullptr) return nullptr;
  return dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

// MPI may be in no scope that this library sees: Python loads its extensions, with what they link, for themselves.
void* LibraryOf(const void* caller) {
  if (const auto* const global = dlsym(RTLD_DEFAULT, "PMPI_Init")) return ObjectOf(global);
  auto* const object = ObjectOf(caller);
  const auto* const function = object != nullptr ? dlsym(object, "PMPI_Init") : nullptr;
  return function != nullptr ? ObjectOf(function) : nullptr;
}

template <typename Function>
void Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

std::string FirstLine(const Below& below) {
  constexpr std::size_t kLongest = 1 << 16;  // of any MPI, which need not be that of this library's header; MPICH: 8192
  std::string text(kLongest, '\0');
  int length = 0;
  below.Get_library_version(text.data(), &length);
  text = text.substr(0, std::min(text.find('\n'), text.find('\0')));
  for (auto& letter : text) {
    if (letter == '\t') letter = ' ';
  }
  return text;
}

// What is wrong with this MPI; empty: nothing.
std::string Mismatch(const Below& below) {
  Dl_info file{};
  dladdr(reinterpret_cast<void*>(below.Init), &file);
  const std::string name = file.dli_fname != nullptr ? file.dli_fname : "";
  const bool is_open_mpi = dlsym(below.library, kMarkOfOpenMpi) != nullptr;
  const bool standard = name.find(kStandardAbi) != std::string::npos;
  if (is_open_mpi == kForOpenMpi && !standard) return {};
  const std::string this_one = std::string("this library is for the ABI of ") + kAbi + ", but the program runs on " +
                               below.version + " (" + name + ")";
  return this_one + (standard ? " by MPI's standard ABI, for which there is none"
                              : std::string(": preload ") + kOther + " instead");
}

const Below* Make(const void* caller) {
  auto* const library = LibraryOf(caller);
  if (library == nullptr) Refuse("the program called MPI, but its MPI cannot be found among the loaded libraries");
  auto* const below = new Below;  // for the rest of the process
  below->library = library;
#define TUTTI_PMPI_FIND(name) Find(library, "PMPI_" #name, below->name);
  TUTTI_PMPI_FUNCTIONS(TUTTI_PMPI_FIND)
  TUTTI_PMPI_LARGE_FUNCTIONS(TUTTI_PMPI_FIND)
#undef TUTTI_PMPI_FIND
#define TUTTI_PMPI_REQUIRE(name) \
  if (below->name == nullptr) Refuse("the program's MPI has no PMPI_" #name ": it is older than MPI 3");
  TUTTI_PMPI_FUNCTIONS(TUTTI_PMPI_REQUIRE)
#undef TUTTI_PMPI_REQUIRE
  below->version = FirstLine(*below);
  if (const auto mismatch = Mismatch(*below); !mismatch.empty()) Refuse(mismatch);
  return below;
}

}  // namespace

const Below& FindBelow(const void* caller) {
  static const Below* const found = Make(caller);
  the_below.store(found, std::memory_order_release);
  return *found;
}

}  // namespace tutti::pmpi
