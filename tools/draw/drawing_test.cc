#include "tools/draw/drawing.h"

#include <gtest/gtest.h>

#include <pugixml.hpp>
#include <set>

#include "tools/draw/host_layout.h"
#include "topology/graph/sample_systems.h"
#include "topology/xml/xml.h"

namespace tutti::tools {
namespace {

topology::System Load(const std::string& file) { return xml::ReadTopologyFile(samples::PathOf(file)).system; }

pugi::xml_document Draw(const topology::System& system) {
  const std::string svg =
      DrawHost(system, 0, "A <machine> & its \"rings\"",
               {{"one host", search::SearchRings(system, 0)}, {"several", search::SearchClusterRings(system, 0)}});
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_string(svg.c_str());
  EXPECT_TRUE(parsed) << parsed.description();
  return document;
}

bool Overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

TEST(Drawing, IsWellFormedAndNamesEverything) {
  for (const char* file : samples::kCompleteFiles) {
    SCOPED_TRACE(file);
    const topology::System system = Load(file);
    const pugi::xml_document document = Draw(system);
    std::multiset<std::string> texts;
    for (const pugi::xml_node& text : document.child("svg").children("text")) texts.insert(text.text().get());
    EXPECT_EQ(texts.count("A <machine> & its \"rings\""), 1U);
    for (const topology::DeviceKind kind : {topology::DeviceKind::cpu, topology::DeviceKind::gpu,
                                            topology::DeviceKind::nic, topology::DeviceKind::nvswitch}) {
      for (const int device : system.All(kind)) EXPECT_GE(texts.count(system.devices[device].name), 1U);
    }
  }
}

TEST(Drawing, StaysOnItsPaper) {
  for (const char* file : samples::kCompleteFiles) {
    SCOPED_TRACE(file);
    const pugi::xml_document document = Draw(Load(file));
    const pugi::xml_node svg = document.child("svg");
    const double width = svg.attribute("width").as_double();
    const double height = svg.attribute("height").as_double();
    for (const pugi::xml_node& shape : svg.children("rect")) {
      if (!shape.attribute("x")) continue;  // the background
      EXPECT_GE(shape.attribute("x").as_double(), 0);
      EXPECT_LE(shape.attribute("x").as_double() + shape.attribute("width").as_double(), width);
      EXPECT_LE(shape.attribute("y").as_double() + shape.attribute("height").as_double(), height);
    }
  }
}

TEST(Drawing, OfRandomAndEmptySystems) {
  for (unsigned seed = 0; seed < 20; ++seed) Draw(samples::RandomSystem(seed));
  Draw(topology::System{});
}

TEST(HostLayout, BoxesDoNotOverlap) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const topology::System system = samples::RandomSystem(seed);
    const HostLayout layout = LayOutHost(system, 0);
    EXPECT_EQ(layout.boxes.size(), system.devices.size() - system.All(topology::DeviceKind::network).size());
    for (const auto& [a, box] : layout.boxes) {
      EXPECT_GE(box.x, 0);
      EXPECT_LE(box.right(), layout.width + 1e-9);
      EXPECT_LE(box.bottom(), layout.height + 1e-9);
      for (const auto& [b, other] : layout.boxes) {
        EXPECT_TRUE(a == b || !Overlap(box, other)) << seed << ": " << a << " and " << b;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::tools
