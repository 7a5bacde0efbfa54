#include "interop/pmpi/below.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "interop/pmpi/constants.h"

namespace tutti::pmpi {

constinit std::atomic<const Below*> the_below{nullptr};

namespace {

// How programs call an MPI: handles, constants and layouts. Each has a build of this library.
struct Abi {
  const char* of;
  const char* layer;
};
constexpr Abi kMpich = {"MPICH and Intel MPI", "libtutti_pmpi_mpich.so"};
constexpr Abi kOpenMpi = {"Open MPI", "libtutti_pmpi_openmpi.so"};
constexpr Abi kStandard = {"the MPI standard (libmpi_abi.so)", "libtutti_pmpi_abi.so"};

// A symbol that Open MPI's ABI consists of, and no other has.
constexpr const char* kMarkOfOpenMpi = "ompi_mpi_comm_world";
// The major version of the standard's ABI that MPI 5.0 has.
constexpr int kStandardMajor = 1;

#if defined(OMPI_MAJOR_VERSION)
constexpr const Abi& kBuiltFor = kOpenMpi;
#elif defined(MPI_ABI_VERSION) && MPI_ABI_VERSION > 0
constexpr const Abi& kBuiltFor = kStandard;
static_assert(MPI_ABI_VERSION == kStandardMajor);
#else
constexpr const Abi& kBuiltFor = kMpich;
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

// MPI 5.0 lets every library say which version of the standard's ABI it has: -1 if it has another ABI. 0: an older MPI,
// which does not say.
int StandardMajor(const Below& below) {
  int (*get_version)(int*, int*) = nullptr;
  Find(below.library, "PMPI_Abi_get_version", get_version);
  int major = 0, minor = 0;
  if (get_version != nullptr) get_version(&major, &minor);
  return major;
}

// What is wrong with this MPI; empty: nothing.
std::string Mismatch(const Below& below) {
  const int standard = StandardMajor(below);
  const bool is_open_mpi = dlsym(below.library, kMarkOfOpenMpi) != nullptr;
  const auto& abi = standard > 0 ? kStandard : is_open_mpi ? kOpenMpi : kMpich;
  if (&abi == &kBuiltFor && standard <= kStandardMajor) return {};
  Dl_info file{};
  dladdr(reinterpret_cast<void*>(below.Init), &file);
  const auto runs_on =
      below.version + " (" + (file.dli_fname != nullptr ? file.dli_fname : "a file without a name") + ")";
  if (standard > kStandardMajor) {
    return "the program runs on " + runs_on + " by version " + std::to_string(standard) +
           " of the ABI of the MPI standard, which is newer than this library";
  }
  return std::string("this library is for the ABI of ") + kBuiltFor.of + ", but the program runs on " + runs_on +
         " by the ABI of " + abi.of + ": preload " + abi.layer + " instead";
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
