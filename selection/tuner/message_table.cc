#include "selection/tuner/message_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/files/json.h"

namespace tutti::tuner {
namespace {

// Sizes that are priced: powers of two.
constexpr std::size_t kLeastPriced = std::size_t{1} << 12, kMostPriced = std::size_t{1} << 32;
// Among ways that differ by less, the one with the fewest channels is taken, as for collectives: each takes a block from
// the program's own kernels.
constexpr double kAlikeMessages = 1.15;
// Between hosts: the part of a message that one block moves in good time, and its pieces.
constexpr std::size_t kBytesPerNetworkChannel = std::size_t{256} << 10;
constexpr std::size_t kNetworkChunk = std::size_t{128} << 10;

constexpr char kMessageRows[] = "rows", kMessageEntries[] = "entries", kMessageFrom[] = "from_bytes",
               kMessageChannels[] = "channels", kMessagePairs[] = "row_of_pair";

int Fitted(int channels, const cost_model::Forced& forced, int most) {
  if (forced.channels != 0) return std::min(forced.channels, most);
  if (forced.most_channels != 0) most = std::min(most, forced.most_channels);
  return std::clamp(channels, std::min(std::max(forced.least_channels, 1), most), most);
}

bool ByLine(const cost_model::TuningContext& tuning, std::size_t bytes) {
  const bool fits = tuning.gpu_slots.lines && bytes <= tuning.gpu_slots.line;
  return tuning.messages.protocol == ring::Protocol::line || (fits && MayTake(ring::Protocol::line, tuning.forced));
}

schedule::ProtocolConfig ConfigOf(const cost_model::TuningContext& tuning, std::size_t bytes) {
  if (ByLine(tuning, bytes)) return {ring::Protocol::line, tuning.gpu_slots.line};
  return {tuning.messages.protocol, tuning.messages.capacity};
}

// The ranks of the host with the most, so that those of any other host have places among them. The nodes of one host are the
// user's (TUTTI_VIRTUAL_NODES) and do not change its links.
std::vector<int> RanksOfFullestHost(const cost_model::TuningContext& tuning) {
  if (!tuning.one_host)
    return *std::ranges::max_element(tuning.where.ranks_on, {}, [](const auto& ranks) { return ranks.size(); });
  std::vector<int> all(static_cast<std::size_t>(tuning.nranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int Place(const cost_model::TuningContext& tuning, int rank) {
  if (tuning.one_host) return rank;
  const auto& where = tuning.where;
  const auto& ranks = where.ranks_on[static_cast<std::size_t>(where.node_of[static_cast<std::size_t>(rank)])];
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

// What a row depends on: the narrowest link, and how far it is.
struct LinkClass {
  double us_per_byte;
  double latency;
  friend auto operator<=>(const LinkClass&, const LinkClass&) = default;
};

double UsPerByteOf(const cost_model::Machine& machine, const cost_model::Route& route) {
  double slowest = 0;
  for (const int resource : route.resources) {
    slowest = std::max(slowest, cost_model::UsPerByte(machine.resource(resource).bandwidth));
  }
  return slowest;
}

std::vector<MessageTable::Entry> RowOf(const cost_model::Machine& machine, const cost_model::TuningContext& tuning,
                                       int from, int to) {
  std::vector<MessageTable::Entry> row = {{}};
  for (std::size_t bytes = kLeastPriced; bytes <= kMostPriced; bytes *= 2) {
    if (ByLine(tuning, bytes)) continue;
    std::map<int, double> prices;
    for (int channels = 1; channels <= tuning.messages.channels; channels *= 2) {
      prices[channels] =
          MessageMicroseconds(machine, from, to, {channels, ConfigOf(tuning, bytes)}, tuning.messages.depth, bytes);
    }
    const double least = std::ranges::min_element(prices, {}, [](const auto& each) { return each.second; })->second;
    const auto enough =
        std::ranges::find_if(prices, [&](const auto& each) { return each.second <= kAlikeMessages * least; });
    // A longer message never takes fewer.
    if (enough->first > row.back().channels) row.push_back({bytes, enough->first});
  }
  return row;
}

}  // namespace

double MessageMicroseconds(const cost_model::Machine& machine, int from, int to, const MessageWay& way,
                           std::uint32_t depth, std::size_t bytes) {
  const auto& costs = machine.costs();
  const auto protocol = static_cast<std::size_t>(way.config.protocol);
  const auto route = machine.RouteOf(from, to, 0);
  const double share = static_cast<double>(bytes) / way.channels;
  const double chunk = std::min(share, static_cast<double>(way.config.chunk_bytes));
  const double chunks = chunk > 0 ? std::max(1.0, share / chunk) : 1;
  // Each step reads and writes: memory and a slot. Where all is in one memory, all four pass its only resource, of which
  // a slot's way is two.
  const double block = 2 * chunk * cost_model::UsPerByte(machine.RatesOf({}, chunk, false).memory);
  const double crossings = machine.one_memory() ? 2 : 1;
  const double link = crossings * chunk * UsPerByteOf(machine, route) / costs.protocol_efficiency[protocol];
  const double shared = way.channels * link;
  const double read = costs.step_us + block, write = costs.step_us + std::max(block, link);
  const double latency = route.latency[protocol];
  const double first = costs.step_us + std::max(block, shared) + latency + read;
  // The first `depth` chunks find free slots. Each later one waits until the reader has emptied that of the chunk `depth`
  // before it.
  const double steady = std::max({read, write, shared}), until_free = write + latency + read + latency;
  const double further = chunks - 1, rounds = std::floor((std::ceil(chunks) - 1) / depth);
  const double waiting = rounds * until_free + std::max(0.0, further - rounds * depth) * steady;
  return costs.operation_us + (way.channels - 1) * costs.channel_skew_us + first + std::max(further * steady, waiting);
}

bool MayTake(ring::Protocol protocol, const cost_model::Forced& forced) {
  return forced.protocol ? *forced.protocol == protocol : forced.without != protocol;
}

MessageTable::MessageTable(const cost_model::Machine& machine, const cost_model::TuningContext& tuning) {
  const auto ranks = RanksOfFullestHost(tuning);
  std::map<LinkClass, int> known;
  for (const int from : ranks) {
    for (const int to : ranks) {
      if (from == to) {
        row_of_pair_.push_back(0);
        continue;
      }
      const auto route = machine.RouteOf(from, to, 0);
      const LinkClass link{UsPerByteOf(machine, route),
                           route.latency[static_cast<std::size_t>(tuning.messages.protocol)]};
      const auto [row, fresh] = known.try_emplace(link, static_cast<int>(known.size()));
      if (fresh && row->second == 0) rows_.clear();
      if (fresh) rows_.push_back(RowOf(machine, tuning, from, to));
      row_of_pair_.push_back(row->second);
    }
  }
  if (rows_.size() == 1) {
    row_of_pair_.clear();
  } else {
    places_ = static_cast<int>(ranks.size());
  }
}

const std::vector<MessageTable::Entry>& MessageTable::Row(const cost_model::TuningContext& tuning, int from,
                                                          int to) const {
  if (row_of_pair_.empty()) return rows_.front();
  // Hosts are alike where links differ (MachineOfSystem).
  const int pair = Place(tuning, from) * places_ + Place(tuning, to);
  return rows_[static_cast<std::size_t>(row_of_pair_[static_cast<std::size_t>(pair)])];
}

MessageWay MessageTable::At(const cost_model::TuningContext& tuning, int from, int to, std::size_t bytes) const {
  const auto& node_of = tuning.where.node_of;
  if (!tuning.one_host && node_of[static_cast<std::size_t>(from)] != node_of[static_cast<std::size_t>(to)]) {
    const auto parts = std::clamp<std::size_t>(bytes / kBytesPerNetworkChannel, 1, cost_model::kFewestChannels);
    return {Fitted(static_cast<int>(parts), tuning.forced, cost_model::kFewestChannels),
            {ring::Protocol::bulk, std::min(kNetworkChunk, tuning.gpu_slots.bulk)}};
  }
  if (ByLine(tuning, bytes)) return {1, ConfigOf(tuning, bytes)};
  const auto& row = Row(tuning, from, to);
  const auto after = std::ranges::upper_bound(row, bytes, {}, &Entry::from_bytes);
  return {Fitted(std::prev(after)->channels, tuning.forced, tuning.messages.channels), ConfigOf(tuning, bytes)};
}

std::string MessageTable::ToJson() const {
  nlohmann::ordered_json json;
  json[kMessageRows] = nlohmann::ordered_json::array();
  for (const auto& row : rows_) {
    auto entries = nlohmann::ordered_json::array();
    for (const auto& entry : row)
      entries.push_back({{kMessageFrom, entry.from_bytes}, {kMessageChannels, entry.channels}});
    json[kMessageRows].push_back({{kMessageEntries, std::move(entries)}});
  }
  json[kMessagePairs] = row_of_pair_;
  return JsonText(json);
}

MessageTable MessageTable::FromJson(const std::string& text, const std::string& name,
                                    const cost_model::TuningContext& tuning) {
  const JsonDocument document(text, name);
  const auto root = document.root();
  const auto most_channels = static_cast<std::uint64_t>(tuning.messages.channels);
  MessageTable table;
  table.rows_.clear();
  for (const auto& row : root.List(kMessageRows)) {
    auto& entries = table.rows_.emplace_back();
    for (const auto& entry : row.List(kMessageEntries)) {
      const Entry read{entry.Whole(kMessageFrom, 0, kMostPriced),
                       static_cast<int>(entry.Whole(kMessageChannels, 1, most_channels))};
      if (entries.empty() ? read.from_bytes != 0 : read.from_bytes <= entries.back().from_bytes) {
        entry.Refuse("the values of \"{}\" do not ascend from 0", kMessageFrom);
      }
      entries.push_back(read);
    }
    if (entries.empty()) row.Refuse("\"{}\" takes a list with at least one entry", kMessageEntries);
  }
  if (table.rows_.empty()) root.Refuse("\"{}\" takes a list with at least one row", kMessageRows);
  const auto rows = root.Wholes(kMessagePairs, 0, table.rows_.size() - 1);
  table.row_of_pair_.assign(rows.begin(), rows.end());
  if (table.row_of_pair_.empty()) return table;
  const auto places = RanksOfFullestHost(tuning).size();
  if (places * places != table.row_of_pair_.size()) {
    root.Refuse("\"{}\" has {} entries, but takes one for each pair of {} ranks", kMessagePairs,
                table.row_of_pair_.size(), places);
  }
  table.places_ = static_cast<int>(places);
  return table;
}

}  // namespace tutti::tuner
