#include "transports/ring/call_site.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <thread>

namespace tutti::ring {
namespace {

std::optional<CallSite> WrittenAndRead(const CallSite& site, std::uint32_t number = 1) {
  const auto table = std::make_unique<CallSiteTable>();
  WriteCallSite(*table, number, site);
  return ReadCallSite(*table, number);
}

TEST(CallSite, IsReadAsItWasWritten) {
  for (const CallSite& site :
       {CallSite{"/job/train.py:41 in step", "", 0, 0}, CallSite{"step", "/job/train", 0x11f2, 7},
        CallSite{"", "/job/train", 1, 0}, CallSite{std::string(kSiteText - 2, 'x'), "", 0, 0}, CallSite{}}) {
    EXPECT_EQ(WrittenAndRead(site), site);
    EXPECT_EQ(WrittenAndRead(site, kCallSites), site);
    EXPECT_EQ(WrittenAndRead(site, std::numeric_limits<std::uint32_t>::max()), site);
  }
}

TEST(CallSite, LosesWhatDoesNotFit) {
  const std::string folders = "/" + std::string(kSiteText, 'f'), symbol(kSiteText, 's');
  EXPECT_EQ(WrittenAndRead({symbol, "/job/train", 1, 2})->module, "/job/train");
  EXPECT_EQ(WrittenAndRead({symbol, "/job/train", 1, 2})->words, std::string(kSiteText - 2 - 10, 's'));
  EXPECT_EQ(WrittenAndRead({"step", folders + "/train", 1, 2})->module, "train");
  EXPECT_EQ(WrittenAndRead({"step", folders, 1, 2})->module, std::string(kSiteText - 2, 'f'));
  EXPECT_EQ(WrittenAndRead({folders + "/job/train.py:41 in step", "", 0, 0})->words, "job/train.py:41 in step");
  EXPECT_EQ(WrittenAndRead({"/job" + folders + ".py:41 in step", "", 0, 0})->words, std::string(kSiteText - 2, 'f'));
}

TEST(CallSite, AnOverwrittenOneIsGone) {
  const auto table = std::make_unique<CallSiteTable>();
  EXPECT_FALSE(ReadCallSite(*table, 0));
  EXPECT_FALSE(ReadCallSite(*table, 1));
  WriteCallSite(*table, 1, {"first", "", 0, 0});
  WriteCallSite(*table, 1 + kCallSites, {"second", "", 0, 0});
  EXPECT_FALSE(ReadCallSite(*table, 1));
  EXPECT_EQ(ReadCallSite(*table, 1 + kCallSites)->words, "second");
}

// Sites overwrite each other while another thread reads.
TEST(CallSite, IsReadWholeOrNotAtAll) {
  constexpr std::uint32_t kWritten = 20'000;
  const auto site_of = [](std::uint32_t number) {
    const auto text = std::to_string(number);
    return CallSite{text, "/job/" + text, number, number};
  };
  const auto table = std::make_unique<CallSiteTable>();
  std::atomic<std::uint32_t> newest{0};
  std::thread writer([&] {
    for (std::uint32_t i = 0; i < kWritten; ++i) {
      const auto number = 1 + i * kCallSites;  // in one place
      WriteCallSite(*table, number, site_of(number));
      newest.store(number, std::memory_order_release);
    }
  });
  constexpr std::uint32_t kLast = 1 + (kWritten - 1) * kCallSites;
  for (std::uint32_t number = 0; number < kLast;) {
    number = newest.load(std::memory_order_acquire);
    const auto site = ReadCallSite(*table, number);
    if (site) {
      EXPECT_EQ(*site, site_of(number));
    }
  }
  writer.join();
  EXPECT_EQ(ReadCallSite(*table, kLast), site_of(kLast));
}

TEST(CallSite, TextsWithoutAnEndEnd) {
  const auto table = std::make_unique<CallSiteTable>();
  auto& entry = (*table)[1];
  for (auto& word : entry.text) word.store(0x7878787878787878);
  entry.number.store(1);
  EXPECT_EQ(ReadCallSite(*table, 1)->words, std::string(kSiteText, 'x'));
  EXPECT_EQ(ReadCallSite(*table, 1)->module, "");
}

}  // namespace
}  // namespace tutti::ring
