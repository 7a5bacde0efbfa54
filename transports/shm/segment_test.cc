#include "transports/shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/file_descriptor.h"

namespace tutti::shm {
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
  std::optional<Segment> shared = Segment(first->mapping());
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

TEST(Segment, BelongsToItsUserAndIsSealed) {
  const auto segment = Segment::Create("tutti-test", 4096);
  const int fd = segment.fd().get();
  EXPECT_EQ(fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  struct stat status {};
  ASSERT_EQ(fstat(fd, &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_NE(ftruncate(fd, 0), 0) << "an access to it would raise SIGBUS now";
}

TEST(Segment, RefusesAFileThatItsOwnerCouldMakeShorter) {
  const FileDescriptor unsealed(memfd_create("tutti-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 1 << 20), 0);
  EXPECT_THROW(Segment::Map(unsealed, 4096), Error);
  const FileDescriptor ordinary(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_THROW(Segment::Map(ordinary, 4096), Error);
  ASSERT_EQ(fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_NO_THROW(Segment::Map(unsealed, 4096));
}

TEST(Segment, RefusesHugePages) {
  constexpr std::size_t kHugePage = 2 << 20;
  const FileDescriptor huge(memfd_create("tutti-test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!huge || ftruncate(huge.get(), kHugePage) != 0) GTEST_SKIP() << "this system has no files of huge pages";
  ASSERT_EQ(fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  try {
    Segment::Map(huge, 4096);
    FAIL() << "was mapped";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("huge pages"), std::string::npos) << error.what();
  }
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
}  // namespace tutti::shm
