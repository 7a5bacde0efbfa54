#include "base/plain_text.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(PlainText, LeavesWhatCanBePrinted) {
  for (const std::string text : {"", "rank 3 (host node1)", "\"quoted\" \\ and ~", "Fl\xc3\xbcgel",
                                 "\xe5\x90\x88\xe5\xa5\x8f", "\xf0\x9f\x8e\xbb"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_TRUE(IsPrintable(text)) << text;
  }
}

TEST(PlainText, WritesDownWhatATerminalWouldObey) {
  const std::string text("\x1b]0;owned\x07\r\n\x7f\0", 14);
  EXPECT_EQ(Printable(text), "\\x1b]0;owned\\x07\\x0d\\x0a\\x7f\\x00");
  EXPECT_FALSE(IsPrintable(text));
  EXPECT_EQ(Printable("\xc2\x9b\x32J"), "\\xc2\\x9b2J") << "CSI in one character";
  EXPECT_EQ(Printable("a\xe2\x80\xae"
                      "b"),
            "a\\xe2\\x80\\xaeb")
      << "right-to-left override";
}

TEST(PlainText, WritesDownWhatIsNoUtf8) {
  EXPECT_EQ(Printable("a\xff"), "a\\xff");
  EXPECT_EQ(Printable("\xc3"), "\\xc3") << "cut short";
  EXPECT_EQ(Printable("\xc3("), "\\xc3(");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf") << "longer than need be";
  EXPECT_EQ(Printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond Unicode";
}

TEST(PlainText, OfAnyTwoBytesMakesWhatCanBePrinted) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second), 'x'};
      EXPECT_TRUE(IsPrintable(Printable(text))) << first << ' ' << second;
      EXPECT_EQ(IsPrintable(text), Printable(text) == text) << first << ' ' << second;
    }
  }
}

TEST(PlainText, CutsBetweenCharacters) {
  EXPECT_EQ(Printable("abcdef", 3), "abc...");
  EXPECT_EQ(Printable("abc", 3), "abc");
  EXPECT_EQ(Printable("ab\xc3\xbc"
                      "d",
                      3),
            "ab...");
  EXPECT_EQ(Printable("ab\x1b", 5), "ab...");
  EXPECT_LE(Printable(std::string(1 << 20, '\x1b')).size(), kMaxSentence + 3);
  EXPECT_EQ(Quoted("a\n"), "\"a\\x0a\"");
  EXPECT_LE(Quoted(std::string(1 << 20, 'a')).size(), kMaxQuoted + 5);
}

}  // namespace
}  // namespace tutti
