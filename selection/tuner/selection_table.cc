#include "selection/tuner/selection_table.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "algorithms/builders/records.h"
#include "base/error.h"
#include "base/files/json.h"
#include "base/plain_text.h"

namespace tutti::tuner {
namespace {

constexpr int kTableVersion = 1;
constexpr int kMostRanks = std::numeric_limits<int>::max();

// The names of a file's entries.
constexpr char kTableFormat[] = "tutti_selection";
constexpr char kRanks[] = "ranks";
constexpr char kNodes[] = "nodes";
constexpr char kRows[] = "rows";
constexpr char kCollective[] = "collective";
constexpr char kLowPrecision[] = "low_precision";
constexpr char kPairwise[] = "pairwise";
constexpr char kEntries[] = "entries";
constexpr char kFrom[] = "from_bytes";
constexpr char kAlgorithm[] = "algorithm";
constexpr char kChannels[] = "channels";
constexpr char kProtocol[] = "protocol";
constexpr char kFormerProtocol[] = "wire";  // in tables of version 0.1 and before
constexpr char kChunk[] = "chunk_bytes";
constexpr char kCma[] = "cma";
constexpr char kUs[] = "us";

int NodesOf(const cost_model::TuningContext& tuning) { return std::max(1, tuning.where.nodes()); }

cost_model::Kind ReadKind(const JsonValue& row) {
  const auto word = row.Text(kCollective);
  const bool low_precision = row.Flag(kLowPrecision, false);
  const bool pairwise = row.Flag(kPairwise, false);
  for (const auto& kind : cost_model::AllKinds()) {
    if (schedule::NameOf(kind.collective) == word && kind.low_precision == low_precision && kind.pairwise == pairwise)
      return kind;
  }
  row.Refuse("collective {} with these flags does not exist", Quoted(word));
}

TableEntry ReadEntry(const JsonValue& object, const cost_model::Kind& kind, const cost_model::TuningContext& tuning) {
  TableEntry entry;
  entry.from_bytes = object.Whole(kFrom, 0, std::numeric_limits<std::size_t>::max());
  const auto word = object.Text(kAlgorithm);
  const auto algorithm = builders::AlgorithmFromName(word);
  if (!algorithm) object.Refuse("algorithm {} is unknown", Quoted(word));
  if (const auto why = cost_model::WhyNot(*algorithm, kind, tuning); !why.empty()) {
    object.Refuse("{} cannot be used for {}: it {}", word, cost_model::ToString(kind), why);
  }
  auto& candidate = entry.candidate;
  candidate.algorithm = *algorithm;
  candidate.channels = static_cast<int>(object.Whole(kChannels, 1, static_cast<std::uint64_t>(tuning.max_channels)));
  const auto protocol_word = object.Text(object.Has(kFormerProtocol) ? kFormerProtocol : kProtocol);
  const auto protocol = ring::ProtocolFromName(protocol_word);
  if (!protocol) object.Refuse("protocol {} is unknown; known are line, inline and bulk", Quoted(protocol_word));
  candidate.config.protocol = *protocol;
  if (kind.pairwise && *protocol != ring::Protocol::bulk)
    object.Refuse("block lengths that only pairs of ranks know require protocol bulk");
  const std::size_t most = cost_model::ChunkCapacity(*protocol, tuning, true);
  candidate.config.chunk_bytes = object.Whole(kChunk, 1, most);
  const bool short_protocol = *protocol != ring::Protocol::bulk && candidate.config.chunk_bytes == most;
  if (candidate.config.chunk_bytes % ring::kCacheLine != 0 && !short_protocol) {
    object.Refuse("\"{}\" is {}, which is not a multiple of {}", kChunk, candidate.config.chunk_bytes,
                  ring::kCacheLine);
  }
  candidate.config.cma = object.Flag(kCma, false);
  if (candidate.config.cma && *protocol != ring::Protocol::bulk) {
    object.Refuse("protocol {} carries its data; \"{}\" takes protocol bulk", protocol_word, kCma);
  }
  // Only informs people: a hand-written file may leave it out.
  entry.us = object.Number(kUs, 0, std::numeric_limits<double>::max(), 0);
  return entry;
}

}  // namespace

void SelectionTable::Set(const cost_model::Kind& kind, std::vector<TableEntry> entries) {
  rows_[static_cast<std::size_t>(cost_model::IndexOf(kind))] = std::move(entries);
}

const TableEntry& SelectionTable::At(const cost_model::Kind& kind, std::size_t bytes) const {
  const auto row = Row(kind);
  const auto next = std::upper_bound(row.begin(), row.end(), bytes,
                                     [](std::size_t size, const TableEntry& entry) { return size < entry.from_bytes; });
  return *(next - 1);
}

std::string SelectionTable::ToJson(const cost_model::TuningContext& tuning) const {
  nlohmann::ordered_json json;
  json[kTableFormat] = kTableVersion;
  json[kRanks] = tuning.nranks;
  json[kNodes] = NodesOf(tuning);
  json[kRows] = nlohmann::ordered_json::array();
  for (const auto& kind : cost_model::AllKinds()) {
    if (!Has(kind)) continue;
    nlohmann::ordered_json row;
    row[kCollective] = schedule::NameOf(kind.collective);
    if (kind.low_precision) row[kLowPrecision] = true;
    if (kind.pairwise) row[kPairwise] = true;
    for (const auto& [from, candidate, us] : Row(kind)) {
      nlohmann::ordered_json entry;
      entry[kFrom] = from;
      entry[kAlgorithm] = builders::NameOf(candidate.algorithm);
      entry[kChannels] = candidate.channels;
      entry[kProtocol] = ring::NameOf(candidate.config.protocol);
      entry[kChunk] = candidate.config.chunk_bytes;
      if (candidate.config.cma) entry[kCma] = true;
      entry[kUs] = us;
      row[kEntries].push_back(std::move(entry));
    }
    json[kRows].push_back(std::move(row));
  }
  return JsonText(json);
}

bool SelectionTable::IsFor(const std::string& text, const std::string& name, const cost_model::TuningContext& tuning) {
  const JsonDocument document(text, name);
  const auto root = document.root();
  return root.Whole(kRanks, 0, kMostRanks, 0) == static_cast<std::uint64_t>(tuning.nranks) &&
         root.Whole(kNodes, 0, kMostRanks, 0) == static_cast<std::uint64_t>(NodesOf(tuning));
}

SelectionTable SelectionTable::FromJson(const std::string& text, const std::string& name,
                                        const cost_model::TuningContext& tuning) {
  const JsonDocument document(text, name);
  const auto root = document.root();
  root.Whole(kTableFormat, kTableVersion, kTableVersion);
  const auto ranks = static_cast<int>(root.Whole(kRanks, 1, kMostRanks));
  const auto nodes = static_cast<int>(root.Whole(kNodes, 1, kMostRanks));
  if (ranks != tuning.nranks || nodes != NodesOf(tuning)) {
    root.Refuse("it is for {} ranks on {} nodes, but this communicator has {} on {}", ranks, nodes, tuning.nranks,
                NodesOf(tuning));
  }
  SelectionTable table;
  for (const auto& row : root.List(kRows)) {
    const cost_model::Kind kind = ReadKind(row);
    std::vector<TableEntry> entries;
    for (const auto& object : row.List(kEntries)) {
      entries.push_back(ReadEntry(object, kind, tuning));
      const std::size_t from = entries.back().from_bytes;
      if (entries.size() == 1 ? from != 0 : from <= entries[entries.size() - 2].from_bytes) {
        object.Refuse("the entries of {} must start at 0 and ascend; this one is {}", cost_model::ToString(kind), from);
      }
    }
    if (entries.empty()) row.Refuse("{} has no entries", cost_model::ToString(kind));
    table.Set(kind, std::move(entries));
  }
  return table;
}

}  // namespace tutti::tuner
