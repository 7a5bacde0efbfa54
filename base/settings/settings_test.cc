#include "base/settings/settings.h"

#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "testing/surroundings.h"

namespace tutti {
namespace {

Settings Read(const std::map<std::string, std::string, std::less<>>& environment) {
  return ReadSettings([&](std::string_view name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

TEST(Settings, DefaultsWithoutEnvironment) {
  const auto settings = Read({});
  EXPECT_EQ(settings.operation_timeout_ms, 600'000);
  EXPECT_EQ(settings.cma, "");
}

TEST(Settings, ReadsEveryKind) {
  const auto settings =
      Read({{"TUTTI_ALGO", "ring"}, {"TUTTI_CMA", "1"}, {"TUTTI_CHUNK", "65536"}, {"TUTTI_THREADS", "3"}});
  EXPECT_EQ(settings.algorithm, "ring");
  EXPECT_EQ(settings.cma, "1");
  EXPECT_EQ(settings.chunk_bytes, 65536);
  EXPECT_EQ(settings.threads, 3);
}

TEST(Settings, RefusesWithNameValueAndRange) {
  for (const auto* value : {"-1", "17", "two", "", "1x", "99999999999999999999"}) {
    try {
      Read({{"TUTTI_THREADS", value}});
      FAIL() << "accepted \"" << value << '"';
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), tuttiInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("TUTTI_THREADS"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("from 0 to 16"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(Read({{"TUTTI_WAIT", "nap"}}), Error);
}

std::string Refusal(const char* name, const std::string& value) {
  try {
    Read({{name, value}});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Settings, NamesTheNearestWord) {
  EXPECT_NE(Refusal("TUTTI_NET", "tpc").find("TUTTI_NET=\"tpc\" is not allowed; did you mean tcp? It takes one of"),
            std::string::npos);
  EXPECT_EQ(Refusal("TUTTI_DEBUG", "init,select"), "");
  EXPECT_EQ(Refusal("TUTTI_DEBUG", "all"), "");
  EXPECT_EQ(Refusal("TUTTI_DEBUG", ""), "");
  EXPECT_EQ(Refusal("TUTTI_DEBUG", "init,selct"),
            "TUTTI_DEBUG=\"init,selct\" is not allowed because of \"selct\"; did you mean select? It takes some of "
            "\"init\", \"select\", \"transport\", \"faults\", \"all\", separated by commas (subjects to log)");
}

TEST(Settings, RefusesHugeAndUnprintableValuesInShort) {
  const std::string megabyte(1 << 20, '7');
  for (const auto& doc : SettingDocs()) {
    const auto refusal = Refusal(std::string(doc.name).c_str(), megabyte);
    EXPECT_NE(refusal.find(doc.name), std::string::npos) << doc.name << " takes a megabyte";
    EXPECT_LT(refusal.size(), 500u);
  }
  for (const std::string value : {"1\x1b[2J", "\xff", "9\n", "-1", "1e3", "0x10", " 1", "+1", "18446744073709551617"}) {
    const auto refusal = Refusal("TUTTI_THREADS", value);
    EXPECT_NE(refusal.find("TUTTI_THREADS="), std::string::npos) << value;
    EXPECT_EQ(refusal.find_first_of("\x1b\n\xff"), std::string::npos) << refusal;
  }
  const auto refusal = Refusal("TUTTI_WAIT", std::string(60'000, 'x'));
  EXPECT_NE(refusal.find("it takes one of"), std::string::npos) << refusal;
}

TEST(Settings, OthersNamesAreReadIfOursIsNotSet) {
  EXPECT_EQ(Read({{"NCCL_TOPO_FILE", "a.xml"}}).topo_file, "a.xml");
  EXPECT_EQ(Read({{"NCCL_TOPO_FILE", "a.xml"}, {"TUTTI_TOPO_FILE", "b.xml"}}).topo_file, "b.xml");
  EXPECT_EQ(Read({{"NCCL_TOPO_DUMP_FILE", "c.xml"}}).topo_dump, "c.xml");
  EXPECT_EQ(Read({{"NCCL_TOPO_DUMP_FILE", "c.xml"}}).topo_file, "");
}

TEST(Settings, FormerNamesAreReadAndReported) {
  const auto told = [](const std::map<std::string, std::string, std::less<>>& given) {
    return FormerNamesIn([&](std::string_view name) -> std::optional<std::string> {
      const auto found = given.find(name);
      return found == given.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_EQ(Read({{"TUTTI_WIRE", "bulk"}}).protocol, "bulk");
  EXPECT_EQ(Read({{"TUTTI_WIRE", "bulk"}, {"TUTTI_PROTO", "line"}}).protocol, "line");
  EXPECT_EQ(told({{"TUTTI_WIRE", "bulk"}}),
            "tutti: TUTTI_WIRE is now TUTTI_PROTO; the next version will not read the former name\n");
  EXPECT_NE(told({{"TUTTI_WIRE", "bulk"}, {"TUTTI_PROTO", "line"}}).find("both are set"), std::string::npos);
  EXPECT_EQ(told({{"TUTTI_PROTO", "line"}, {"NCCL_TOPO_FILE", "a.xml"}}), "");
}

TEST(Settings, AreToldAsTheTextThatSetsThem) {
  const std::map<std::string, std::string, std::less<>> given = {
      {"TUTTI_ALGO", "ring"}, {"TUTTI_CMA", "1"}, {"TUTTI_CHUNK", "65536"}, {"TUTTI_THREADS", "3"}};
  const auto settings = Read(given);
  std::map<std::string, std::string> told;
  const auto docs = SettingDocs();
  for (std::size_t i = 0; i < docs.size(); ++i) told.emplace(docs[i].name, SettingText(settings, i));
  for (const auto& [name, value] : given) EXPECT_EQ(told[name], value) << name;
  EXPECT_EQ(told["TUTTI_ZERO_COPY"], "1");
  EXPECT_EQ(told["TUTTI_PROTO"], "");
}

TEST(Settings, SecretsAreNotTold) {
  const auto docs = SettingDocs();
  const auto secret = std::find_if(docs.begin(), docs.end(), [](auto& doc) { return doc.name == "TUTTI_SECRET"; });
  ASSERT_NE(secret, docs.end());
  const auto index = static_cast<std::size_t>(secret - docs.begin());
  EXPECT_EQ(SettingText(Read({{"TUTTI_SECRET", "hush"}}), index), "(set)");
  EXPECT_EQ(SettingText(Read({}), index), "");
}

TEST(Settings, EveryVariableIsDocumented) {
  for (const auto& doc : SettingDocs()) {
    EXPECT_TRUE(doc.name.starts_with("TUTTI_"));
    EXPECT_FALSE(doc.meaning.empty());
    const bool known = doc.allowed == "any text" || doc.allowed.starts_with("one of \"") ||
                       doc.allowed.starts_with("some of \"") || doc.allowed.starts_with("a whole number from ");
    EXPECT_TRUE(known) << doc.name << " takes " << doc.allowed;
  }
}

// What the next test starts as a program.
TEST(SettingsOfAProgram, DISABLED_Print) {
  std::printf("%lu:%s\n", getauxval(AT_SECURE), GlobalSettings().socket_ifname.c_str());
}

// A user starts root's set-user-ID program with settings.
TEST(Settings, AreIgnoredWithMoreRightsThanTheCallers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  if (const auto why = testing::WhyNoNewProgram(); !why.empty()) GTEST_SKIP() << why;
  char folder[] = "/tmp/tutti-settings-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string program = std::string(folder) + "/program";
  std::filesystem::copy_file("/proc/self/exe", program);
  ASSERT_EQ(chmod(folder, 0755), 0);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  const auto print = "TUTTI_SOCKET_IFNAME=nonsense setpriv --reuid 65534 --regid 65534 --clear-groups " + program +
                     " --gtest_also_run_disabled_tests --gtest_filter=SettingsOfAProgram.* 2>&1";
  std::string said;
  FILE* const output = popen(print.c_str(), "r");
  ASSERT_NE(output, nullptr);
  for (char line[512]; std::fgets(line, sizeof line, output) != nullptr;) said += line;
  pclose(output);
  std::filesystem::remove_all(folder);
  if (said.find("\n1:") == std::string::npos) GTEST_SKIP() << "no set-user-ID program runs here: " << said;
  EXPECT_EQ(said.find("\n1:nonsense"), std::string::npos) << said;
  EXPECT_NE(said.find("TUTTI_SOCKET_IFNAME is ignored"), std::string::npos) << said;
}

}  // namespace
}  // namespace tutti
