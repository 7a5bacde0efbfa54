// One measured cell - an operation at a size, in or out of place - with every library's result, and its file formats.
//
// Thread-safety: value types, pure functions except the writers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/driver/measure.h"

namespace tutti::bench {

struct Record {
  Operation operation;
  std::size_t bytes = 0;  // requested
  std::size_t size = 0;   // measured: the larger side, in whole elements and blocks
  int ranks = 0;
  std::vector<Result> results;
  std::optional<double> bound_us;            // the best this machine could do (bound.h)
  std::optional<double> line_round_trip_us;  // measured just before; absent when ranks outnumber cores
};

// A record without results.
Record MakeRecord(const Operation& operation, std::size_t bytes, int ranks);

// Gigabytes (10^9) per second.
double AlgorithmBandwidth(const Record& record, double us);
double BusBandwidth(const Record& record, double us);

const Result* FindResult(const Record& record, const std::string& library);
// The fastest measured result of a library other than Tutti, null if there is none. The naive program is no library.
const Result* BestPeer(const Record& record);

Json ToJson(const Record& record);
Record RecordFromJson(const Json& json);
// One line per library, after CsvHeader().
std::string CsvHeader();
std::string ToCsv(const Record& record);

}  // namespace tutti::bench
