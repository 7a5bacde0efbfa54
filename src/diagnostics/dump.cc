#include "src/diagnostics/dump.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "algorithms/builders/records.h"
#include "base/files/json.h"
#include "base/numbers/datatype.h"
#include "src/diagnostics/recorder.h"
#include "src/diagnostics/source_lines.h"

namespace tutti::diagnostics {
namespace {

// The algorithm in a record, which a peer may have written.
tuttiAlgorithm_t AlgorithmOf(std::uint32_t recorded) {
  return recorded < tuttiNumAlgorithms ? static_cast<tuttiAlgorithm_t>(recorded) : tuttiNumAlgorithms;
}

nlohmann::ordered_json OperationOf(const RecordedCall& record, const TickScale& scale, const std::string& site) {
  const plan::Operation call = plan::UnpackCall(record.call, record.count);
  nlohmann::ordered_json json = {{"sequence", record.sequence},
                                 {"call", record.Describe()},
                                 {"kind", call.collective_call() ? "collective" : schedule::NameOf(call.collective)},
                                 {"signature", fmt::format("{:016x}", record.signature)},
                                 {"bytes", IsDataType(call.type) ? record.count * SizeOf(call.type) : 0},
                                 {"algorithm", builders::NameOf(AlgorithmOf(record.algorithm()))},
                                 {"started_us", scale.At(record.started)},
                                 {"done", record.done()}};
  if (!call.collective_call()) json["peer"] = call.root;
  if (!site.empty()) json["site"] = site;
  if (record.done()) json["ended_us"] = scale.At(record.ended);
  return json;
}

}  // namespace

std::string DumpOf(const DumpedRank& dumped, const ring::ControlBlock& control) {
  nlohmann::ordered_json json;
  json["tutti_dump"] = 1;
  json["communicator"] = dumped.communicator;
  json["name"] = dumped.name;
  json["rank"] = dumped.rank;
  json["time_us"] = dumped.scale.At(Ticks());
  json["ranks"] = nlohmann::ordered_json::array();
  for (const auto& process : dumped.roster) {
    json["ranks"].push_back(nlohmann::ordered_json{{"host", process.host}, {"pid", process.pid}});
  }
  if (dumped.failure) {
    json["failure"] = {{"code", ResultPhrase(dumped.failure->code())}, {"text", dumped.failure->what()}};
  }
  if (dumped.waits_for >= 0) json["waits_for"] = dumped.waits_for;
  json["operations"] = nlohmann::ordered_json::array();
  SourceLines lines;
  for (const auto& record : ReadRecords(control)) {
    json["operations"].push_back(OperationOf(record, dumped.scale, lines.Describe(control.sites, record.site())));
  }
  return JsonText(json);
}

}  // namespace tutti::diagnostics
