#include "bench/report/record.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/report/grid_report.h"

namespace tutti::bench {
namespace {

Result Measured(const std::string& library, double median, double least, double greatest) {
  Result result;
  result.library = library;
  result.measured = true;
  result.median_us = median;
  result.least_median_us = least;
  result.greatest_median_us = greatest;
  result.mean_us = median;
  result.p99_us = greatest;
  result.checked = true;
  return result;
}

Record Sample(const std::vector<Result>& results, double bound) {
  Record record;
  record.operation = {Collective::all_reduce, tuttiBfloat16, tuttiMax, 3, 512, true};
  record.bytes = 1024;
  record.size = 1024;
  record.ranks = 4;
  record.results = results;
  record.bound_us = bound;
  return record;
}

TEST(Record, SurvivesTheFile) {
  Record record = Sample({Measured("tutti", 2, 1, 3), Measured("mpich", 4, 3, 5)}, 0.5);
  record.line_round_trip_us = 0.1;
  record.results[0].algorithm = "ring";
  record.results[1].measured = false;
  record.results[1].refused = true;
  record.results[1].error = "rank 1 was killed";
  EXPECT_EQ(ToJson(RecordFromJson(Json::parse(ToJson(record).dump()))), ToJson(record));
}

TEST(Record, BandwidthsAreThoseOfNcclTests) {
  const Record record = Sample({}, 1);
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(record, 1), 1.024);
  EXPECT_DOUBLE_EQ(BusBandwidth(record, 1), 1.536);
  EXPECT_DOUBLE_EQ(AlgorithmBandwidth(record, 0), 0);
}

TEST(Record, CsvHasAsManyFieldsAsItsHeader) {
  const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  const std::string line = ToCsv(Sample({Measured("tutti", 2, 1, 3)}, 1));
  EXPECT_EQ(commas(line), commas(CsvHeader()));
  EXPECT_EQ(line.back(), '\n');
}

TEST(BestPeer, IsTheFastestLibraryThatIsNotTutti) {
  Record record = Sample(
      {Measured("tutti", 1, 1, 1), Measured("gloo", 9, 9, 9), Measured("openmpi", 4, 4, 4), Measured("flat", 1, 1, 1)},
      1);
  EXPECT_EQ(BestPeer(record)->library, "openmpi");
  record.results[2].measured = false;
  EXPECT_EQ(BestPeer(record)->library, "gloo");
}

TEST(IsMissed, OnlyBeyondTheSpreadAndAwayFromTheBound) {
  const auto missed = [](double least, double median, double bound) {
    return IsMissed(Sample({Measured("tutti", median, least, median), Measured("openmpi", 4, 3, 5)}, bound));
  };
  EXPECT_FALSE(missed(3, 3.5, 1)) << "faster";
  EXPECT_FALSE(missed(4.5, 6, 1)) << "within the spread";
  EXPECT_TRUE(missed(5.5, 6, 1));
  EXPECT_FALSE(missed(5.5, 6, 5)) << "close to the bound";
}

TEST(GridMarkdown, RowsHaveAsManyCellsAsTheirHeader) {
  Record alone = Sample({Measured("tutti", 2, 1, 3)}, 1);
  alone.bytes = 8;
  alone.line_round_trip_us = 0.5;
  const std::string text = GridMarkdown({alone, Sample({Measured("tutti", 2, 1, 3), Measured("gloo", 8, 7, 9)}, 1)});
  const auto bars = [](const std::string& line) { return std::count(line.begin(), line.end(), '|'); };
  std::ptrdiff_t expected = 0;
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; start = end + 1, end = text.find('\n', start)) {
    const std::string line = text.substr(start, end - start);
    if (line.empty() || line[0] != '|') {
      expected = 0;
      continue;
    }
    if (expected == 0) expected = bars(line);
    EXPECT_EQ(bars(line), expected) << line;
  }
  EXPECT_NE(text.find("| 0.25 |"), std::string::npos) << text;
  EXPECT_NE(text.find("8 B, 4 ranks: 2.000 us, 4.00 cache-line round trips of 0.500 us\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::bench
