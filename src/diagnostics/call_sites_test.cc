#include "src/diagnostics/call_sites.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>

#include <memory>
#include <set>

#include "base/shared_library.h"
#include "src/diagnostics/recorder.h"
#include "src/diagnostics/source_lines.h"

namespace tutti::diagnostics {
namespace {

// A rank that calls and publishes.
class Rank {
 public:
  std::uint32_t Call(std::uint64_t key, const std::string& text) {
    return Publish(key | plan::kNamedSite, std::make_shared<const std::string>(text));
  }
  std::uint32_t CallFrom(const void* returns_to) {
    return Publish(reinterpret_cast<std::uintptr_t>(returns_to), nullptr);
  }
  std::string Site(const RecordedCall& call) { return lines_.Describe(control_->sites, call.site()); }
  std::vector<RecordedCall> Records() const { return ReadRecords(*control_); }
  ring::ControlBlock& control() { return *control_; }
  SourceLines& lines() { return lines_; }

 private:
  std::uint32_t Publish(std::uint64_t site, const std::shared_ptr<const std::string>& text) {
    ring::RecordedOperation record;
    record.origin = ring::PackOrigin(0, sites_.NumberOf(site, text).number);
    recorder_.Begin(record);
    return record.site();
  }

  std::unique_ptr<ring::ControlBlock> control_ = std::make_unique<ring::ControlBlock>();
  Recorder recorder_{*control_};
  CallSites sites_{*control_};
  SourceLines lines_;
};

TEST(CallSites, EqualKeysHaveOneNumber) {
  Rank rank;
  const auto first = rank.Call(1, "a.py:1"), second = rank.Call(2, "a.py:2");
  EXPECT_NE(first, second);
  EXPECT_EQ(rank.Call(1, "a.py:1"), first);
  EXPECT_EQ(rank.Call(2, "a.py:2"), second);
  EXPECT_EQ(rank.CallFrom(nullptr), 0U);
}

// However many sites there are, and in whatever order they call, every kept record names its own.
TEST(CallSites, EveryKeptRecordHasItsSite) {
  for (const std::uint64_t sites : {1U, ring::kRecords, ring::kRecords + 1, ring::kCallSites, 3 * ring::kCallSites}) {
    Rank rank;
    std::vector<std::string> called;
    for (std::uint64_t call = 0; call < 4 * std::uint64_t{ring::kCallSites}; ++call) {
      // Site 0 at every other call: it is the oldest, and always on record.
      const auto site = call % 2 == 0 ? 0 : call * call % sites;
      called.push_back("train.py:" + std::to_string(site));
      rank.Call(site + 1, called.back());
    }
    const auto records = rank.Records();
    ASSERT_EQ(records.size(), ring::kRecords);
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(rank.Site(records[i]), called[called.size() - records.size() + i]) << sites << " sites";
    }
  }
}

[[gnu::noinline]] const void* WhoCalls() { return __builtin_return_address(0); }

TEST(CallSites, InMachineCodeHaveLineOrFunction) {
  Rank rank;
  const void* const here = WhoCalls();
  rank.CallFrom(here);
  const auto site = rank.Site(rank.Records().front());
  // The source file, or the program if it is built without -g.
  const bool has_line = site.find("call_sites_test.cc:") != std::string::npos;
  EXPECT_TRUE(has_line || site.find("unit_tests+0x") != std::string::npos) << site;
  // Without libdw a function has a name only if the program exports it.
  if (SharedLibrary("libdw.so.1")) {
    EXPECT_NE(site.find("InMachineCode"), std::string::npos) << site;
  }
}

// As many as are neither numbered nor resolved at the same time, so that each is forgotten and looked up again.
TEST(CallSites, InMachineCodeAreTheSameWhenTheyAreFoundAgain) {
  constexpr std::uint64_t kSites = 5000;
  Rank rank;
  const auto module_begins = reinterpret_cast<std::uintptr_t>(&ring::WriteCallSite);
  const auto called = [&](std::uint64_t site) {
    return ring::ReadCallSite(rank.control().sites, rank.CallFrom(reinterpret_cast<const void*>(module_begins + site)));
  };
  const auto first = called(1);
  ASSERT_TRUE(first && !first->module.empty());
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t site = 1; site < kSites; ++site) {
      const auto found = called(site);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->module, first->module);
      EXPECT_EQ(found->build, first->build);
      EXPECT_EQ(found->offset, first->offset + site - 1);
    }
  }
}

TEST(CallSites, OfAModuleThatIsGoneAreForgotten) {
  constexpr const char* kLibrary = "libresolv.so.2";  // a part of the C library that nothing here has loaded
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const link_map* map = nullptr;
  ASSERT_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
  const void* const inside = map->l_ld + 1;
  Rank rank;
  rank.CallFrom(inside);
  EXPECT_NE(rank.Site(rank.Records().back()).find("libresolv"), std::string::npos);
  ASSERT_EQ(dlclose(library), 0);
  if (dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD) != nullptr) GTEST_SKIP() << "something here has loaded " << kLibrary;
  rank.CallFrom(WhoCalls());  // one that is not known
  rank.CallFrom(inside);
  EXPECT_EQ(rank.Site(rank.Records().back()), "");
}

TEST(CallSites, NamesOfFunctionsAreShort) {
  Rank rank;
  const auto described = [&](const char* symbol) {
    ring::WriteCallSite(rank.control().sites, 1, {symbol, "train", 16, 0});
    return rank.lines().Describe(rank.control().sites, 1);
  };
  EXPECT_EQ(described("step"), "train+0x10 in step");
  EXPECT_EQ(described("f"), "train+0x10 in f");
  EXPECT_EQ(described("_Z4stepi"), "train+0x10 in step");
  EXPECT_EQ(described("_Z4stepi.constprop.0"), "train+0x10 in step");
  EXPECT_EQ(described("_ZN3job12_GLOBAL__N_14stepIiEEiT_"), "train+0x10 in job::step");
  EXPECT_EQ(described("_ZNK3job5Model4stepERKSt6vectorIfSaIfEE"), "train+0x10 in job::Model::step");
  EXPECT_EQ(described("_Z4stepB5cxx11v"), "train+0x10 in step");
  EXPECT_EQ(described("_ZltRK1AS1_"), "train+0x10 in operator<(A const&, A const&)");
  EXPECT_EQ(described("_ZNK1ScviEv"), "train+0x10 in S::operator int");
  EXPECT_EQ(described("_ZNKR1S4stepEi"), "train+0x10 in S::step");
  EXPECT_EQ(described("_ZNK1SclEi"), "train+0x10 in S::operator()(int)");
  EXPECT_EQ(described("_ZN1SixEi"), "train+0x10 in S::operator[](int)");
}

TEST(CallSites, OutsideOfAnyModuleAreUnknown) {
  Rank rank;
  const auto heap = std::make_unique<int>();
  rank.CallFrom(heap.get());
  EXPECT_EQ(rank.Site(rank.Records().front()), "");
}

TEST(CallSites, AreShortInMessages) {
  Rank rank;
  const auto number = rank.Call(1, "/job/in here/train.py:41 in step");
  EXPECT_EQ(rank.lines().At(rank.control().sites, number), " at train.py:41 in step");
  EXPECT_EQ(AtSite("/job/runs in march/train.py:5"), " at train.py:5");
  EXPECT_EQ(AtSite("/job/runs in march/train.py:5 in step"), " at train.py:5 in step");
  EXPECT_EQ(AtSite("/job/in here/train+0x11f2 in job::operator/"), " at train+0x11f2 in job::operator/");
  EXPECT_EQ(AtSite(" in here/train.py"), " at train.py");
  EXPECT_EQ(rank.lines().At(rank.control().sites, 0), "");
  EXPECT_EQ(rank.lines().At(rank.control().sites, number + 1), "");
}

// A peer may have written anything.
TEST(CallSites, NoPeersWordsAreObeyed) {
  Rank rank;
  auto& sites = rank.control().sites;
  const auto described = [&](const ring::CallSite& site) {
    ring::WriteCallSite(sites, 1, site);
    return rank.lines().Describe(sites, 1);
  };
  EXPECT_EQ(described({"\x1b[2J", "", 0, 0}), "\\x1b[2J");
  for (const char* const module :
       {"/dev/zero", "/dev/tty", "/proc/self/mem", "/nowhere", "/", "train", "/etc/passwd"}) {
    EXPECT_EQ(described({"step", module, 16, 1}), std::string(module) + "+0x10 in step");
  }
}

}  // namespace
}  // namespace tutti::diagnostics
