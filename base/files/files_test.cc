#include "base/files/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    std::string pattern = (fs::temp_directory_path() / "tutti_files_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Files() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string TextOf(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return std::move(text).str();
  }
  void Lay(const std::string& name, const std::string& text) const { std::ofstream(Path(name)) << text; }
  static mode_t PermissionsOf(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0);
    return status.st_mode & 0777;
  }
  std::size_t Entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

::testing::AssertionResult RefusesToWrite(const std::string& path, tuttiResult_t code, const std::string& words) {
  try {
    WriteFile(path, "text");
  } catch (const Error& error) {
    if (error.code() != code || std::string(error.what()).find(words) == std::string::npos) {
      return ::testing::AssertionFailure() << "it says (" << error.code() << ") " << error.what();
    }
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "it was written";
}

TEST_F(Files, WritesAndReplaces) {
  WriteFile(Path("new"), "one");
  EXPECT_EQ(TextOf(Path("new")), "one");
  WriteFile(Path("new"), "another");
  EXPECT_EQ(TextOf(Path("new")), "another");
  EXPECT_EQ(ReadFile(Path("new"), 7), "another");
  EXPECT_EQ(Entries(), 1u) << "nothing is left beside it";
}

TEST_F(Files, FollowsNoLink) {
  Lay("precious", "precious");
  fs::create_symlink(Path("precious"), Path("link"));
  EXPECT_TRUE(RefusesToWrite(Path("link"), tuttiInvalidUsage, "it is a symbolic link"));
  fs::create_symlink(Path("nowhere"), Path("dangling"));
  EXPECT_TRUE(RefusesToWrite(Path("dangling"), tuttiInvalidUsage, "it is a symbolic link"));
  EXPECT_EQ(TextOf(Path("precious")), "precious");
  EXPECT_FALSE(fs::exists(Path("nowhere")));
}

TEST_F(Files, LeavesTheFileThatHasASecondName) {
  Lay("precious", "precious");
  fs::create_hard_link(Path("precious"), Path("trace"));
  WriteFile(Path("trace"), "timeline");
  EXPECT_EQ(TextOf(Path("trace")), "timeline");
  EXPECT_EQ(TextOf(Path("precious")), "precious");
}

TEST_F(Files, KeepsPermissionsAndElseTheUmask) {
  const mode_t before = umask(027);
  WriteFile(Path("new"), "");
  umask(before);
  EXPECT_EQ(PermissionsOf(Path("new")), 0640u);
  chmod(Path("new").c_str(), 0604);
  WriteFile(Path("new"), "again");
  EXPECT_EQ(PermissionsOf(Path("new")), 0604u);
}

TEST_F(Files, ShowsReadersOneOrTheOther) {
  const std::string old(1 << 20, 'a'), young(1 << 20, 'b');
  WriteFile(Path("file"), old);
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) WriteFile(Path("file"), i % 2 == 0 ? young : old);
  });
  for (int i = 0; i < 50; ++i) {
    const auto text = ReadFile(Path("file"), 2 << 20);
    EXPECT_TRUE(text == old || text == young) << text.size();
  }
  writer.join();
}

TEST_F(Files, WritesToDevicesAndOpenFiles) {
  WriteFile("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  WriteFile("/dev/fd/" + std::to_string(ends[1]), "by number");
  close(ends[1]);
  EXPECT_EQ(ReadFile("/proc/self/fd/" + std::to_string(ends[0]), 100), "by number");
  close(ends[0]);
}

TEST_F(Files, SaysWhyItCannotWrite) {
  EXPECT_TRUE(RefusesToWrite(Path("nowhere/file"), tuttiSystemError, "No such file"));
  EXPECT_TRUE(RefusesToWrite(folder_.string(), tuttiSystemError, "Is a directory"));
  EXPECT_TRUE(RefusesToWrite("", tuttiSystemError, "cannot write"));
  EXPECT_TRUE(RefusesToWrite(Path("a\x1b[2J/file"), tuttiSystemError, "a\\x1b[2J"));
  EXPECT_TRUE(RefusesToWrite("/dev/full", tuttiSystemError, "No space"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(RefusesToWrite(Path("pipe"), tuttiSystemError, "cannot write")) << "nobody reads it";
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(Files, ReadsNoMoreThanIsAllowed) {
  Lay("five", "12345");
  EXPECT_EQ(ReadFile(Path("five"), 5), "12345");
  EXPECT_THROW(ReadFile(Path("five"), 4), Error);
  EXPECT_THROW(ReadFile("/dev/zero", 1 << 20), Error);
  EXPECT_THROW(ReadFile(Path("none"), 5), Error);
  EXPECT_THROW(ReadFile(folder_.string(), 5), Error);
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(Path("pipe"), 5), "") << "a pipe without a writer is no reason to wait";
}

// What OpenForLines refuses, with these words; the empty text: it opened the file and wrote "line".
std::string Refused(const std::string& path) {
  try {
    const int file = OpenForLines(path);
    EXPECT_EQ(write(file, "line\n", 5), 5);
    close(file);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_F(Files, LinesGoToOwnFilesAlone) {
  Lay("old", "what was there");
  EXPECT_EQ(Refused(Path("old")), "");
  EXPECT_EQ(TextOf(Path("old")), "line\n");
  EXPECT_EQ(Refused(Path("new")), "");
  EXPECT_EQ(TextOf(Path("new")), "line\n");
  EXPECT_EQ(Refused("/dev/null"), "");

  Lay("target", "kept");
  fs::create_symlink(Path("target"), Path("link"));
  EXPECT_NE(Refused(Path("link")).find("symbolic link"), std::string::npos);
  fs::create_hard_link(Path("target"), Path("second"));
  EXPECT_NE(Refused(Path("second")).find("second name"), std::string::npos);
  EXPECT_EQ(TextOf(Path("target")), "kept");
  fs::create_symlink(Path("nothing"), Path("dangling"));
  EXPECT_NE(Refused(Path("dangling")).find("symbolic link"), std::string::npos);
  EXPECT_FALSE(fs::exists(Path("nothing")));
  EXPECT_NE(Refused(folder_.string()), "");

  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_NE(Refused(Path("pipe")), "") << "it has no reader";
  const int reader = open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_EQ(Refused(Path("pipe")), "");
  if (geteuid() == 0) {
    ASSERT_EQ(chown(Path("pipe").c_str(), 65534, 65534), 0);
    EXPECT_NE(Refused(Path("pipe")).find("pipe of another user"), std::string::npos);
    ASSERT_EQ(chown(Path("old").c_str(), 65534, 65534), 0);
    EXPECT_NE(Refused(Path("old")).find("file of another user"), std::string::npos);
  }
  close(reader);
}

TEST_F(Files, LinesGoToOpenFilesByTheirNumber) {
  const int file = open(Path("open").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(Refused("/dev/fd/" + std::to_string(file)), "");
  close(file);
  EXPECT_EQ(TextOf(Path("open")), "line\n");
  EXPECT_NE(Refused("/dev/fd/" + std::to_string(file)), "");
}

}  // namespace
}  // namespace tutti
