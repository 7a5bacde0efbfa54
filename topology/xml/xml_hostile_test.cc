// Text that is no topology, or no sane one, is refused with its place and the reason; damaged files never do worse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "base/error.h"
#include "topology/graph/paths.h"
#include "topology/xml/xml.h"

namespace tutti::xml {
namespace {

void ExpectRefused(const std::string& text, const std::string& part) {
  try {
    ParseTopology(text, "bad.xml");
    FAIL() << "accepted: " << text.substr(0, 300);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), tuttiInvalidArgument);
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with("bad.xml:")) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message << "\n instead of: " << part;
  }
}

std::string InCpu(const std::string& inside) {
  return "<system version=\"1\">\n<cpu numaid=\"0\">\n" + inside + "</cpu>\n</system>";
}
std::string InGpu(const std::string& inside) {
  return InCpu("<pci busid=\"0000:01:00.0\">\n<gpu dev=\"0\" sm=\"80\">\n" + inside + "</gpu></pci>");
}

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(HostileTopology, NotXml) {
  ExpectRefused("", "bad.xml:1: ");
  ExpectRefused("hello", "bad.xml:1: ");
  ExpectRefused("<system version=\"1\">\n<cpu>\n</system>", "bad.xml:3: ");
  ExpectRefused(std::string("<system>\n\0</system>", 19), "bad.xml:2: a control character, 0x00");
  ExpectRefused("<graph/>", "the root element is <graph>");
  ExpectRefused("<system version=\"2\"><cpu/></system>", "version=\"2\", which must be from 1 to 1");
  ExpectRefused("<system version=\"1\"/>", "<system> has no <cpu>");
  ExpectRefused(Repeat(" ", 9 << 20), "the limit for a topology file");
}

TEST(HostileTopology, EntityBombsAndDepth) {
  ExpectRefused(
      "<?xml version=\"1.0\"?>\n<!DOCTYPE lolz [<!ENTITY lol \"lol\"><!ENTITY lol2 "
      "\"&lol;&lol;\">]>\n<system>&lol2;</system>",
      "bad.xml:2: a document type");
  ExpectRefused(InCpu(Repeat("<pci busid=\"0000:01:00.0\">", 100'000) + Repeat("</pci>", 100'000)),
                "nested deeper than 32");
  ExpectRefused(InCpu(Repeat("<a>", 1'000'000)), "bad.xml:3: ");
  std::string attributes;
  for (int i = 0; i < 1000; ++i) attributes += " a" + std::to_string(i) + "=\"1\"";
  ExpectRefused("<system" + attributes + "/>", "more than 64 attributes");
}

TEST(HostileTopology, TooMany) {
  std::string gpus;
  for (int i = 0; i < 10'000; ++i) gpus += "<gpu dev=\"" + std::to_string(i) + "\"/>\n";
  ExpectRefused(InCpu(gpus), "bad.xml:1027: more than 1024 GPUs in one file");
  std::string places;
  for (int i = 0; i < 20'000; ++i) {
    char bus_id[32];
    std::snprintf(bus_id, sizeof bus_id, "%04x:00:00.0", i);
    places += std::string("<pci busid=\"") + bus_id + "\"/>\n";
  }
  ExpectRefused(InCpu(places), "more than 16384 PCI devices");
  ExpectRefused(InCpu(Repeat("<a/>\n", 1'000'000)), "more than 100000 elements");
  EXPECT_EQ(ParseTopology(InCpu(Repeat("<a/>\n", 90'000)), "long").notes.at(89'999), "line 90002: <a> ignored");
  std::string cpus;
  for (int i = 0; i < 300; ++i) cpus += "<cpu numaid=\"" + std::to_string(i) + "\"/>";
  ExpectRefused("<system>" + cpus + "</system>", "more than 256 CPUs");
}

TEST(HostileTopology, AttributesAbsentTwiceOrWrong) {
  ExpectRefused(InCpu("<pci class=\"0x030200\"/>"), "bad.xml:3: <pci> has no busid");
  ExpectRefused(InCpu("<pci busid=\"one\"/>"), "not a PCI bus id");
  ExpectRefused(InCpu("<pci busid=\"0000:01:00.0\" busid=\"0000:02:00.0\"/>"), "two attributes busid");
  ExpectRefused(InCpu("<pci busid=\"0000:01:00.0\" class=\"gpu\"/>"), "class=\"gpu\", which is not a whole number");
  ExpectRefused(InCpu("<pci busid=\"0000:01:00.0\" class=\"0x1ffffffffffffffffff\"/>"), "must be from 0 to 16777215");
  ExpectRefused(InCpu("<pci busid=\"0000:01:00.0\" link_width=\"wide\"/>"), "link_width=\"wide\"");
  ExpectRefused(InCpu("<gpu sm=\"-80\"/>"), "sm=\"-80\", which must be from 0");
  ExpectRefused(InCpu("<gpu sm=\"\"/>"), "not a whole number");
  ExpectRefused(InCpu("<gpu sm=\"80\" gdr=\"yes\"/>"), "gdr=\"yes\"");
  ExpectRefused(InCpu("<gpu sm=\"80\x1b\"/>"), "bad.xml:3: a control character, 0x1b");
  ExpectRefused(InCpu("<nic><net name=\"&#27;[2J\"/></nic>"), "name has a control character");
  ExpectRefused(InCpu("<nic><net name=\"&#155;2J\"/></nic>"), "name has a control character");
  ExpectRefused(InCpu("<nic><net name=\"a&#10;b\"/></nic>"), "name has a control character");
  ExpectRefused(InCpu("<nic><net name=\"\xff\"/></nic>"), "not UTF-8");
  ExpectRefused(InCpu("<a\xff/>"), "a\\xff");
  ExpectRefused(InCpu("<a b\xc2\x9b=\"1\"/>"), "b\\xc2\\x9b");
  ExpectRefused(InCpu("<gpu sm=\"80\xc3\xa9\"/>"), "80\xc3\xa9");
  ExpectRefused(InCpu("<nic><net name=\"" + std::string(5000, 'x') + "\"/></nic>"),
                "name has more than 4096 characters");
  ExpectRefused(InCpu("<" + std::string(100, 'x') + "/>"), "an element whose name has more than 64");
  ExpectRefused(InCpu("<nic><net speed=\"99999999999999999999\"/></nic>"), "speed=");
  ExpectRefused(InCpu("<nic><net latency=\"nan\"/></nic>"), "not a number");
  ExpectRefused(InCpu("<nic><net latency=\"-1\"/></nic>"), "must be from 0");
  ExpectRefused("<system><cpu affinity=\"ff,xyz\"/></system>", "affinity");
  ExpectRefused("<system><cpu affinity=\"ff,1ffffffff\"/></system>", "affinity");
  ExpectRefused("<system><cpu affinity=\"" + Repeat("f,", 300) + "\"/></system>", "more than 256 words");
  ExpectRefused("<system><cpu caches=\"f;xyz\"/></system>", "caches");
  ExpectRefused("<system><cpu caches=\"" + Repeat("f;", 300) + "\"/></system>", "more than 256 caches");
  ExpectRefused("<system><cpu package=\"first\"/></system>", "package");
}

TEST(HostileTopology, Nvlinks) {
  ExpectRefused(InGpu("<nvlink target=\"0000:02:00.0\"/>"), "bad.xml:5: <nvlink> has no count");
  ExpectRefused(InGpu("<nvlink count=\"1\"/>"), "<nvlink> has no target");
  ExpectRefused(InGpu("<nvlink target=\"0000:02:00.0\" count=\"-1\"/>"), "count=\"-1\"");
  ExpectRefused(InGpu("<nvlink target=\"../../etc\" count=\"1\"/>"), "not a PCI bus id");
}

TEST(HostileTopology, AbsentAndEndlessFiles) {
  EXPECT_THROW(ReadTopologyFile("topology/testdata/none.xml"), Error);
  EXPECT_THROW(ReadTopologyFile("topology/testdata"), Error);
  EXPECT_THROW(ReadTopologyFile("/dev/zero"), Error);
}

// A file damaged at random places: bytes changed, cut out, doubled, moved.
std::string Damage(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  static constexpr std::string_view kLikely = "<>\"='/ 0-9:xf\n&;![]";
  const std::size_t wounds = 1 + below(4);
  for (std::size_t i = 0; i < wounds && !text.empty(); ++i) {
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(text.size() - at, 1 + below(60));
    switch (below(4)) {
      case 0: text[at] = kLikely[below(kLikely.size())]; break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      default: text.insert(below(text.size()), text.substr(below(text.size()), length)); break;
    }
  }
  return text;
}

TEST(HostileTopology, DamagedFilesAreReadOrRefused) {
  std::mt19937 random(20240607);
  int read = 0;
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator("topology/testdata")) {
    if (entry.path().extension() != ".xml") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    for (int i = 0; i < 60; ++i) {
      try {
        const auto file = ParseTopology(Damage(text.str(), random), "damaged");
        ASSERT_FALSE(file.system.devices.empty());
        EXPECT_EQ(topology::PathsFrom(file.system, 0).size(), file.system.devices.size());
        EXPECT_EQ(
            ParseTopology(WriteTopology(file.system), "again").system.devices.size(),
            static_cast<std::size_t>(std::count_if(file.system.devices.begin(), file.system.devices.end(),
                                                   [](const topology::Device& device) { return device.host <= 0; })));
        ++read;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), tuttiInvalidArgument);
        EXPECT_TRUE(std::string(error.what()).starts_with("damaged:")) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(read, 50);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace tutti::xml
