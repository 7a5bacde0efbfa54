#include "bench/report/record.h"

#include <fmt/format.h>

#include <iterator>
#include <stdexcept>

#include "base/numbers/datatype.h"
#include "bench/driver/launch.h"

namespace tutti::bench {
namespace {

Json ToJson(const Result& result, const Record& record) {
  Json json = {{"library", result.library}};
  if (!result.error.empty()) json["error"] = result.error;
  if (result.refused) json["refused"] = true;
  if (!result.measured) return json;
  json["median_us"] = result.median_us;
  json["least_median_us"] = result.least_median_us;
  json["greatest_median_us"] = result.greatest_median_us;
  json["mean_us"] = result.mean_us;
  json["p99_us"] = result.p99_us;
  json["algbw_gbs"] = AlgorithmBandwidth(record, result.median_us);
  json["busbw_gbs"] = BusBandwidth(record, result.median_us);
  if (result.checked) json["wrong"] = result.wrong;
  if (!result.algorithm.empty()) json["algorithm"] = result.algorithm;
  return json;
}

Result ResultFromJson(const Json& json) {
  Result result;
  result.library = json.at("library");
  result.error = json.value("error", "");
  result.refused = json.value("refused", false);
  result.measured = json.contains("median_us");
  if (!result.measured) return result;
  result.median_us = json.at("median_us");
  result.least_median_us = json.at("least_median_us");
  result.greatest_median_us = json.at("greatest_median_us");
  result.mean_us = json.at("mean_us");
  result.p99_us = json.at("p99_us");
  result.checked = json.contains("wrong");
  result.wrong = json.value("wrong", std::size_t{0});
  result.algorithm = json.value("algorithm", "");
  return result;
}

}  // namespace

Record MakeRecord(const Operation& operation, std::size_t bytes, int ranks) {
  Record record;
  record.operation = operation;
  record.bytes = bytes;
  record.size = SizeOfLargerSide(operation, ranks);
  record.ranks = ranks;
  return record;
}

double AlgorithmBandwidth(const Record& record, double us) {
  constexpr double kBytesPerUsOfOneGigabytePerSecond = 1e3;
  return us > 0 ? static_cast<double>(record.size) / us / kBytesPerUsOfOneGigabytePerSecond : 0;
}

double BusBandwidth(const Record& record, double us) {
  return AlgorithmBandwidth(record, us) * BusFactor(record.operation.collective, record.ranks);
}

const Result* FindResult(const Record& record, const std::string& library) {
  for (const Result& result : record.results) {
    if (result.library == library && result.measured) return &result;
  }
  return nullptr;
}

const Result* BestPeer(const Record& record) {
  const Result* best = nullptr;
  for (const Result& result : record.results) {
    if (result.library == kTutti || result.library == kFlat || !result.measured) continue;
    if (best == nullptr || result.median_us < best->median_us) best = &result;
  }
  return best;
}

Json ToJson(const Record& record) {
  const Operation& operation = record.operation;
  Json json = {{"collective", NameOf(operation.collective)},
               {"ranks", record.ranks},
               {"bytes", record.bytes},
               {"size", record.size},
               {"count", operation.count},
               {"type", NcclTestsName(operation.type)},
               {"op", tutti::NameOf(operation.op)},
               {"root", operation.root},
               {"in_place", operation.in_place},
               {"results", Json::array()}};
  for (const Result& result : record.results) json["results"].push_back(ToJson(result, record));
  if (record.bound_us) json["bound_us"] = *record.bound_us;
  if (record.line_round_trip_us) json["line_round_trip_us"] = *record.line_round_trip_us;
  return json;
}

Record RecordFromJson(const Json& json) {
  const auto collective = CollectiveNamed(json.at("collective").get<std::string>());
  const auto type = DataTypeNamed(json.at("type").get<std::string>());
  const auto op = OpNamed(json.at("op").get<std::string>());
  if (!collective || !type || !op) throw std::runtime_error("unknown collective, type or op");
  Record record;
  record.operation = {*collective, *type, *op, json.at("root"), json.at("count"), json.at("in_place")};
  record.ranks = json.at("ranks");
  record.bytes = json.at("bytes");
  record.size = json.at("size");
  for (const Json& result : json.at("results")) record.results.push_back(ResultFromJson(result));
  if (json.contains("bound_us")) record.bound_us = json.at("bound_us").get<double>();
  if (json.contains("line_round_trip_us")) record.line_round_trip_us = json.at("line_round_trip_us").get<double>();
  return record;
}

std::string CsvHeader() {
  return "collective,ranks,bytes,size,count,type,op,root,place,library,median_us,least_median_us,greatest_median_us,"
         "mean_us,p99_us,algbw_gbs,busbw_gbs,wrong,algorithm,bound_us\n";
}

std::string ToCsv(const Record& record) {
  const Operation& operation = record.operation;
  std::string text;
  for (const Result& result : record.results) {
    if (!result.measured) continue;
    fmt::format_to(std::back_inserter(text),
                   "{},{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{:.3f},{},{},{}\n",
                   NameOf(operation.collective), record.ranks, record.bytes, record.size, operation.count,
                   NcclTestsName(operation.type), Reduces(operation.collective) ? tutti::NameOf(operation.op) : "none",
                   HasRoot(operation.collective) ? operation.root : -1, operation.in_place ? "in" : "out",
                   result.library, result.median_us, result.least_median_us, result.greatest_median_us, result.mean_us,
                   result.p99_us, AlgorithmBandwidth(record, result.median_us), BusBandwidth(record, result.median_us),
                   result.checked ? fmt::format("{}", result.wrong) : "", result.algorithm,
                   record.bound_us ? fmt::format("{:.3f}", *record.bound_us) : "");
  }
  return text;
}

}  // namespace tutti::bench
