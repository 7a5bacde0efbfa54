#include "algorithms/selection_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

// The names of a file's entries.
constexpr char kFormat[] = "tutti_selection";
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
constexpr char kWire[] = "wire";
constexpr char kChunk[] = "chunk_bytes";
constexpr char kUs[] = "us";

int NodesOf(const Conditions& conditions) { return std::max(1, conditions.where.nodes()); }

// Reads fields of one file, and says which one is wrong.
class Reader {
 public:
  Reader(std::string name, const Conditions& conditions) : name_(std::move(name)), conditions_(conditions) {}

  template <typename T>
  T Number(const Json& object, const char* key, std::uint64_t low, std::uint64_t high) const {
    const auto found = object.find(key);
    if (found == object.end()) Refuse("\"{}\" is missing", key);
    if (!found->is_number_unsigned() || found->template get<std::uint64_t>() < low ||
        found->template get<std::uint64_t>() > high) {
      Refuse("\"{}\" is {}; it takes a whole number from {} to {}", key, found->dump(), low, high);
    }
    return static_cast<T>(found->template get<std::uint64_t>());
  }

  std::string Word(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string()) Refuse("\"{}\" is missing or no text", key);
    return found->get<std::string>();
  }

  const Json& List(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_array()) Refuse("\"{}\" is missing or no list", key);
    return *found;
  }

  Kind ReadKind(const Json& row) const {
    const auto word = Word(row, kCollective);
    for (const auto& kind : AllKinds()) {
      if (NameOf(kind.collective) == word && kind.low_precision == row.value(kLowPrecision, false) &&
          kind.pairwise == row.value(kPairwise, false)) {
        return kind;
      }
    }
    Refuse("there is no row for collective \"{}\" with these flags", word);
  }

  TableEntry ReadEntry(const Json& object, const Kind& kind) const {
    TableEntry entry;
    entry.from_bytes = Number<std::size_t>(object, kFrom, 0, UINT64_MAX);
    const auto word = Word(object, kAlgorithm);
    const auto algorithm = AlgorithmFromName(word);
    if (!algorithm) Refuse("algorithm \"{}\" is unknown", word);
    if (const auto why = WhyNot(*algorithm, kind, conditions_); !why.empty()) {
      Refuse("{} cannot serve {}: it {}", word, ToString(kind), why);
    }
    auto& candidate = entry.candidate;
    candidate.algorithm = *algorithm;
    candidate.channels = Number<int>(object, kChannels, 1, static_cast<std::uint64_t>(conditions_.max_channels));
    candidate.shape.wire = ReadWire(Word(object, kWire));
    if (kind.pairwise && candidate.shape.wire != Wire::bulk) Refuse("blocks that only a pair knows travel in bulk");
    const std::size_t most = ChunkCapacity(candidate.shape.wire, conditions_, true);
    candidate.shape.chunk_bytes = Number<std::size_t>(object, kChunk, 1, most);
    const bool short_wire = candidate.shape.wire != Wire::bulk && candidate.shape.chunk_bytes == most;
    if (candidate.shape.chunk_bytes % kCacheLine != 0 && !short_wire) {
      Refuse("\"{}\" is {}, which is no multiple of {}", kChunk, candidate.shape.chunk_bytes, kCacheLine);
    }
    const auto us = object.find(kUs);
    if (us != object.end() && us->is_number()) entry.us = us->get<double>();
    return entry;
  }

  template <typename... Arguments>
  [[noreturn]] void Refuse(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    Throw(tuttiInvalidArgument, "{}: {}", name_, fmt::format(format, std::forward<Arguments>(arguments)...));
  }

 private:
  Wire ReadWire(const std::string& word) const {
    if (const auto wire = WireFromName(word)) return *wire;
    Refuse("wire \"{}\" is unknown; there are line, inline and bulk", word);
  }

  std::string name_;
  const Conditions& conditions_;
};

}  // namespace

void SelectionTable::Set(const Kind& kind, std::vector<TableEntry> entries) {
  rows_[static_cast<std::size_t>(IndexOf(kind))] = std::move(entries);
}

const TableEntry& SelectionTable::At(const Kind& kind, std::size_t bytes) const {
  const auto row = Row(kind);
  const auto next = std::upper_bound(row.begin(), row.end(), bytes,
                                     [](std::size_t size, const TableEntry& entry) { return size < entry.from_bytes; });
  return *(next - 1);
}

std::string SelectionTable::ToJson(const Conditions& conditions) const {
  nlohmann::ordered_json json;
  json[kFormat] = kVersion;
  json[kRanks] = conditions.nranks;
  json[kNodes] = NodesOf(conditions);
  json[kRows] = Json::array();
  for (const auto& kind : AllKinds()) {
    if (!Has(kind)) continue;
    nlohmann::ordered_json row;
    row[kCollective] = NameOf(kind.collective);
    if (kind.low_precision) row[kLowPrecision] = true;
    if (kind.pairwise) row[kPairwise] = true;
    for (const auto& [from, candidate, us] : Row(kind)) {
      nlohmann::ordered_json entry;
      entry[kFrom] = from;
      entry[kAlgorithm] = NameOf(candidate.algorithm);
      entry[kChannels] = candidate.channels;
      entry[kWire] = NameOf(candidate.shape.wire);
      entry[kChunk] = candidate.shape.chunk_bytes;
      entry[kUs] = us;
      row[kEntries].push_back(std::move(entry));
    }
    json[kRows].push_back(std::move(row));
  }
  return json.dump(1) + "\n";
}

bool SelectionTable::IsFor(const std::string& text, const Conditions& conditions) {
  const Json json = Json::parse(text, nullptr, false);
  return json.is_object() && json.value(kRanks, 0) == conditions.nranks && json.value(kNodes, 0) == NodesOf(conditions);
}

SelectionTable SelectionTable::FromJson(const std::string& text, const std::string& name,
                                        const Conditions& conditions) {
  const Reader reader(name, conditions);
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) reader.Refuse("this is no JSON object");
  reader.Number<int>(json, kFormat, kVersion, kVersion);
  const auto ranks = reader.Number<int>(json, kRanks, 1, INT32_MAX);
  const auto nodes = reader.Number<int>(json, kNodes, 1, INT32_MAX);
  if (ranks != conditions.nranks || nodes != NodesOf(conditions)) {
    reader.Refuse("it is for {} ranks on {} nodes; here are {} on {}", ranks, nodes, conditions.nranks,
                  NodesOf(conditions));
  }
  SelectionTable table;
  for (const auto& row : reader.List(json, kRows)) {
    if (!row.is_object()) reader.Refuse("{} in \"{}\" is no object", row.dump(), kRows);
    const Kind kind = reader.ReadKind(row);
    std::vector<TableEntry> entries;
    for (const auto& object : reader.List(row, kEntries)) {
      if (!object.is_object()) reader.Refuse("{} in \"{}\" is no object", object.dump(), kEntries);
      entries.push_back(reader.ReadEntry(object, kind));
      const std::size_t from = entries.back().from_bytes;
      if (entries.size() == 1 ? from != 0 : from <= entries[entries.size() - 2].from_bytes) {
        reader.Refuse("the entries of {} must begin at 0 and ascend; there is {}", ToString(kind), from);
      }
    }
    if (entries.empty()) reader.Refuse("{} has no entries", ToString(kind));
    table.Set(kind, std::move(entries));
  }
  return table;
}

}  // namespace tutti
