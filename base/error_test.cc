#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tutti {
namespace {

TEST(ErrnoText, NeverSaysSuccess) {
  EXPECT_EQ(ErrnoText(ENOENT), "No such file or directory");
  EXPECT_EQ(ErrnoText(0), "the system gave no reason");
  try {
    ThrowSystem("cannot open the device", 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot open the device: the system gave no reason");
  }
}

}  // namespace
}  // namespace tutti
