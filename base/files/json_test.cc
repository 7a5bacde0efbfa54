#include "base/files/json.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

namespace tutti {
namespace {

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// The sentence of the refusal. Empty if the text was not refused.
std::string Refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), tuttiInvalidArgument);
    return error.what();
  }
  return "";
}

bool Says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

TEST(Json, RefusesDepthBeforeItIsBuilt) {
  constexpr int kDeep = 200'000;
  for (const std::string& text : {Repeated("[", kDeep) + Repeated("]", kDeep),
                                  Repeated("{\"a\":", kDeep) + "1" + Repeated("}", kDeep), Repeated("[", kDeep)}) {
    EXPECT_TRUE(Says(Refusal([&] { JsonDocument(text, "deep.json"); }), "deep.json: nested deeper than 16 levels"));
  }
  std::vector<std::uint8_t> binary(kDeep, 0x81);  // a list of one, whose entry is a list of one, ...
  EXPECT_TRUE(Says(Refusal([&] { JsonDocument::FromBinary(binary, "rank 0"); }), "rank 0: nested deeper than"));
  EXPECT_EQ(Refusal([] { JsonDocument(Repeated("[", 16) + Repeated("]", 16), "file"); }), "");
}

TEST(Json, RefusesWhatIsTooMuch) {
  EXPECT_TRUE(Says(Refusal([] { JsonDocument("[1, 2, 3]", "file", {.values = 3}); }), "file: more than 3 values"));
  EXPECT_EQ(Refusal([] { JsonDocument("[1, 2, 3]", "file", {.values = 4}); }), "");
  EXPECT_TRUE(Says(Refusal([] { JsonDocument("[1, 2, 3]", "file", {.bytes = 8}); }), "file: 9 bytes; the limit is 8"));
  EXPECT_TRUE(Says(Refusal([] { JsonDocument("[" + Repeated("[],", 600'000) + "[]]", "file"); }), "values"));
}

TEST(Json, RefusesWhatIsNoJsonAndSaysWhere) {
  for (const std::string text : {"", "{", "[1,]", "nonsense", "{\"a\" 1}", "1 2", "\"\xff\"", "[1e999]", "\"a"}) {
    EXPECT_TRUE(Says(Refusal([&] { JsonDocument(text, "file"); }), "file: not valid JSON: ")) << text;
  }
  EXPECT_TRUE(Says(Refusal([] { JsonDocument("{\n\"a\" 1}", "file"); }), "line 2, column 5"));
  // The text may be long, and unfit for a terminal.
  const auto text = Refusal([] { JsonDocument("[\"" + std::string(1 << 20, 'x') + "\x1b\"]", "file"); });
  EXPECT_LT(text.size(), 400u);
  EXPECT_FALSE(Says(text, "\x1b"));
  const std::vector<std::uint8_t> bytes = {0x41, 0x00};
  EXPECT_TRUE(Says(Refusal([&] { JsonDocument::FromBinary(bytes, "rank 0"); }), "rank 0: "));
}

TEST(Json, NamesThePlaceAndWhatBelongsThere) {
  const JsonDocument document(
      R"({"rows": [{"n": 3, "each": [2, 0, 1]}, {"n": "three", "x": 1e300, "ok": 1, "list": {}}], "neg": -1, "big":
    18446744073709551615})",
      "table.json");
  const auto root = document.root();
  const auto rows = root.List("rows");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].Whole("n", 0, 9), 3u);
  EXPECT_EQ(Refusal([&] { rows[1].Whole("n", 0, 9); }),
            "table.json: rows[1]: \"n\" is \"three\"; it takes a whole number from 0 to 9");
  EXPECT_EQ(Refusal([&] { rows[0].Whole("n", 4, 9); }),
            "table.json: rows[0]: \"n\" is 3; it takes a whole number from 4 to 9");
  EXPECT_EQ(Refusal([&] { rows[0].Text("name"); }), "table.json: rows[0]: \"name\" is missing");
  EXPECT_EQ(Refusal([&] { root.Text("rows"); }), "table.json: \"rows\" is a list of 2; it takes a string");
  EXPECT_EQ(Refusal([&] { root.List("neg"); }), "table.json: \"neg\" is -1; it takes a list");
  EXPECT_EQ(Refusal([&] { rows[1].Number("x", 0, 1e6); }),
            "table.json: rows[1]: \"x\" is 1e+300; it takes a number from 0 to 1000000");
  EXPECT_EQ(Refusal([&] { rows[1].Flag("ok"); }), "table.json: rows[1]: \"ok\" is 1; it takes true or false");
  EXPECT_EQ(Refusal([&] { rows[1].At("n").At("x"); }), "table.json: rows[1].n: \"three\" where an object is expected");
  EXPECT_EQ(Refusal([&] { root.Whole("neg", 0, 9); }),
            "table.json: \"neg\" is -1; it takes a whole number from 0 to 9");
  EXPECT_EQ(root.Integer("neg", -5, 9), -1);
  EXPECT_NE(Refusal([&] { root.Integer("big", -5, 9); }), "");
  EXPECT_EQ(root.Whole("big", 0, UINT64_MAX), UINT64_MAX);
  EXPECT_EQ(rows[0].Wholes("each", 0, 2), (std::vector<std::uint64_t>{2, 0, 1}));
  EXPECT_EQ(Refusal([&] { rows[0].Wholes("each", 1, 2); }),
            "table.json: rows[0].each[1]: 0 where a whole number from 1 to 2 is expected");
}

TEST(Json, TakesFallbacksOnlyForWhatIsMissing) {
  const JsonDocument document(R"({"n": "x"})", "file");
  const auto root = document.root();
  EXPECT_EQ(root.Whole("m", 0, 9, 5), 5u);
  EXPECT_EQ(root.Integer("m", 0, 9, -1), -1);
  EXPECT_EQ(root.Number("m", 0, 9, 0.5), 0.5);
  EXPECT_EQ(root.Text("m", ""), "");
  EXPECT_TRUE(root.Flag("m", true));
  EXPECT_NE(Refusal([&] { root.Whole("n", 0, 9, 5); }), "");
  EXPECT_NE(Refusal([&] { root.Flag("n", false); }), "");
}

TEST(Json, PrintsNothingThatATerminalObeys) {
  const JsonDocument document("{\"a\": \"\\u001b[2J\", \"long\": \"" + std::string(1 << 20, 'x') + "\"}", "fi\x1ble");
  EXPECT_EQ(document.root().Text("a"), "\\x1b[2J");
  EXPECT_EQ(document.root().RawText("a"), "\x1b[2J");
  EXPECT_LT(document.root().Text("long").size(), 5000u);
  const auto refusal = Refusal([&] { document.root().List("long"); });
  EXPECT_LT(refusal.size(), 200u);
  EXPECT_TRUE(refusal.starts_with("fi\\x1ble: "));
}

TEST(Json, WritesWhatIsNoUtf8) { EXPECT_NO_THROW(JsonDocument(JsonText({{"name", "a\xff"}}), "file")); }

}  // namespace
}  // namespace tutti
