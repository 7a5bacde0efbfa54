// Hooks are registered once, and settings come from them where the environment has none.
#include "base/extension.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/settings/settings.h"

namespace tutti {
namespace {

TEST(Extension, SettingsComeFromTheEnvironmentFirst) {
  const auto other = [](std::string_view name) -> std::optional<Sourced> {
    if (name == "TUTTI_ALGO") return Sourced{"ring", "OTHER_ALGO"};
    if (name == "TUTTI_THREADS") return Sourced{"many", "OTHER_THREADS"};
    return std::nullopt;
  };
  const auto with_threads = [](std::string_view name) -> std::optional<std::string> {
    return name == "TUTTI_THREADS" ? std::optional<std::string>("2") : std::nullopt;
  };
  const auto settings = ReadSettings(with_threads, other);
  EXPECT_EQ(settings.algorithm, "ring");
  EXPECT_EQ(settings.threads, 2);
}

TEST(Extension, ARefusalNamesTheVariableThatWasSet) {
  const auto other = [](std::string_view name) -> std::optional<Sourced> {
    return name == "TUTTI_THREADS" ? std::optional(Sourced{"many", "OTHER_THREADS"}) : std::nullopt;
  };
  try {
    ReadSettings([](std::string_view) { return std::nullopt; }, other);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("OTHER_THREADS stands for TUTTI_THREADS=\"many\""), std::string::npos)
        << error.what();
  }
}

TEST(Extension, IsRegisteredOnce) {
  EXPECT_EQ(TheExtension().setting, nullptr);
  tuttiExtension_t given{};
  EXPECT_THROW(RegisterExtension(given), Error);  // no size
  given.size = offsetof(tuttiExtension_t, check);
  given.check = [](char*, std::size_t) { return tuttiInternalError; };  // beyond the size
  RegisterExtension(given);
  EXPECT_EQ(TheExtension().check, nullptr);
  EXPECT_THROW(RegisterExtension(given), Error);
}

TEST(Extension, AFailedHookGivesItsReason) {
  const auto hook = [](int number, char* why, std::size_t size) {
    snprintf(why, size, "number %d is wrong", number);
    return number == 0 ? tuttiSuccess : tuttiInvalidUsage;
  };
  RequireSuccess(hook, 0);
  try {
    RequireSuccess(hook, 7);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), tuttiInvalidUsage);
    EXPECT_STREQ(error.what(), "number 7 is wrong");
  }
}

}  // namespace
}  // namespace tutti
