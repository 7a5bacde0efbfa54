#include "transports/segment.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "base/error.h"

namespace tutti {
namespace {

TEST(Segment, IsZeroedAndSharedWithOtherMappings) {
  const auto first = Segment::Create("tutti-test", 10'000);
  for (std::size_t i = 0; i < first.bytes(); ++i) ASSERT_EQ(first.data()[i], std::byte{0});
  const auto second = Segment::Map(first.fd(), 10'000);
  first.data()[9'999] = std::byte{7};
  EXPECT_EQ(second.data()[9'999], std::byte{7});
}

TEST(Segment, OutlivesItsMakerForOtherUsers) {
  std::optional<Segment> first = Segment::Create("tutti-test", 4096);
  std::optional<Segment> mapped = Segment::Map(first->fd(), 4096);
  std::optional<Segment> shared = Segment::Share(first->data(), 4096);
  std::memset(first->data(), 1, 4096);
  first.reset();
  EXPECT_EQ(mapped->data()[0], std::byte{1});
  EXPECT_EQ(shared->data()[4095], std::byte{1});
  mapped.reset();
  shared.reset();
}

TEST(Segment, RefusesAShorterFile) {
  const auto segment = Segment::Create("tutti-test", 4096);
  EXPECT_THROW(Segment::Map(segment.fd(), 1 << 20), Error);
}

TEST(Segment, IsSharedWithAForkedProcess) {
  const auto segment = Segment::Create("tutti-test", 4096);
  const pid_t child = fork();
  if (child == 0) {
    const auto mine = Segment::Map(segment.fd(), 4096);
    mine.data()[5] = std::byte{9};
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(segment.data()[5], std::byte{9});
}

}  // namespace
}  // namespace tutti
