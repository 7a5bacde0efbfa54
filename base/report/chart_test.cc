#include "base/report/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <pugixml.hpp>
#include <string>

namespace tutti::report {
namespace {

std::size_t Count(const pugi::xml_document& svg, const std::string& element) {
  return svg.select_nodes(("//" + element).c_str()).size();
}

TEST(Chart, IsXmlWithALineForEachCurveAndNoneForPointsAlone) {
  Chart chart{"<a> & \"b\"", {{"first"}, {"second"}}, "ranks"};
  chart.bytes = false;
  chart.panels[1].logarithmic = false;
  for (Panel& panel : chart.panels) {
    panel.curves = {{"simulated", {{8, 1}, {64, 3}, {512, 9}}}, {"measured", {{8, 2}, {64, 2.5}}, false}};
  }
  pugi::xml_document svg;
  ASSERT_TRUE(svg.load_string(Draw(chart).c_str()));
  EXPECT_EQ(Count(svg, "polyline"), 2u);
  EXPECT_EQ(Count(svg, "circle"), 2u * (3 + 2));
  EXPECT_EQ(std::string(svg.child("svg").child("text").text().get()), "<a> & \"b\"");
}

TEST(Chart, ALinearAxisBeginsAtZero) {
  Chart chart{"", {{"busbw", {{"ring", {{8, 180}, {16, 231.6}}}}, false}}};
  pugi::xml_document svg;
  ASSERT_TRUE(svg.load_string(Draw(chart).c_str()));
  EXPECT_FALSE(svg.select_node("//text[text()='0']").node().empty());
  EXPECT_FALSE(svg.select_node("//text[text()='250']").node().empty());
}

TEST(Chart, ManyNamesTakeAnotherLineAndManyPointsAreNotMarked) {
  Chart chart{"", {{"losses"}}, "step", false, false};
  for (int i = 0; i < 9; ++i) {
    Curve curve{"a name of some length"};
    for (int step = 0; step < 100; ++step) curve.points.emplace_back(step + 1, i + 1);
    chart.panels[0].curves.push_back(curve);
  }
  pugi::xml_document svg;
  ASSERT_TRUE(svg.load_string(Draw(chart).c_str()));
  EXPECT_EQ(Count(svg, "circle"), 0u);
  const double right = svg.child("svg").attribute("width").as_double();
  for (const auto& text : svg.select_nodes("//text")) EXPECT_LT(text.node().attribute("x").as_double(), right);
  EXPECT_FALSE(svg.select_node("//text[text()='80']").node().empty());  // the axis is not logarithmic
}

// The panels lie below all lines of names, and curves of one colour can be told apart.
TEST(Chart, MoreNamesAndCurvesThanThereAreLinesAndColours) {
  const auto draw = [](int curves) {
    Chart chart{"", {{"losses"}}, "step", false, false};
    for (int i = 0; i < curves; ++i) chart.panels[0].curves.push_back({"a name of some length", {{1, 1}, {2, i + 1}}});
    pugi::xml_document svg;
    EXPECT_TRUE(svg.load_string(Draw(chart).c_str()));
    return svg;
  };
  const auto few = draw(3), many = draw(20);
  EXPECT_EQ(draw(9).select_nodes("//polyline[@stroke-dasharray]").size(), 0u);
  EXPECT_EQ(many.select_nodes("//polyline[@stroke-dasharray]").size(), 11u);
  double lowest = 0;
  for (const auto& name : many.select_nodes("/svg/text[text()='a name of some length']")) {
    lowest = std::max(lowest, name.node().attribute("y").as_double());
  }
  const auto title = [](const pugi::xml_document& svg) {
    return svg.select_node("/svg/text[text()='losses']").node().attribute("y").as_double();
  };
  EXPECT_GT(title(many), lowest + 10);
  EXPECT_EQ(many.child("svg").attribute("height").as_double() - few.child("svg").attribute("height").as_double(),
            title(many) - title(few));
  EXPECT_GT(title(many), title(few));
}

}  // namespace
}  // namespace tutti::report
