// Compares the ranks' collective calls outside those calls: in collective control calls, and after a rank's last call.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <type_traits>

#include "base/all_gather.h"
#include "base/plain_text.h"
#include "src/communicator/communicator.h"
#include "src/communicator/control_call.h"

namespace tutti::comm {
namespace {

// Of the words that say where a call was made.
constexpr std::size_t kToldSite = 128;

// A collective call, as sent to other ranks.
struct Told {
  std::uint64_t sequence, signature, call, count;
  std::array<char, kToldSite> site;  // SourceLines::At(), ended

  std::string Call() const { return plan::DescribeCall(call, count); }
  std::string Where() const { return Printable({site.data(), strnlen(site.data(), site.size())}); }
};
static_assert(std::has_unique_object_representations_v<Told>);

template <typename T>
std::vector<std::vector<T>> GatherLists(const AllGather& all_gather, const std::vector<T>& mine) {
  const auto all = all_gather(std::as_bytes(std::span(mine)));
  std::vector<std::vector<T>> lists;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].size() % sizeof(T) != 0) Throw(tuttiInternalError, "rank {} sent a malformed list of calls", r);
    lists.emplace_back(all[r].size() / sizeof(T));
    if (!all[r].empty()) std::memcpy(lists.back().data(), all[r].data(), all[r].size());
  }
  return lists;
}

// Compares the newest mark present in both: marks are cumulative. With streams, ranks may be at different calls.
bool Differ(const std::vector<std::uint64_t>& one, const std::vector<std::uint64_t>& other) {
  for (auto mark = one.rbegin(); mark != one.rend(); ++mark) {
    const auto same = std::ranges::find(other, ring::MarkedSequence(*mark), ring::MarkedSequence);
    if (same != other.end()) return *same != *mark;
  }
  return false;
}

// Describes the oldest calls on record that differ.
std::string WhichDiffer(const std::vector<Told>& one, const std::string& who, const std::vector<Told>& other,
                        const std::string& who_else) {
  for (const auto& call : one) {
    const auto same = std::ranges::find(other, call.sequence, &Told::sequence);
    if (same == other.end() || same->signature == call.signature) continue;
    return fmt::format("{} called {} as operation {}{}, but {} called {}{}{}", who, call.Call(), call.sequence,
                       call.Where(), who_else, same->Call(), same->Where(),
                       plan::WhereAlike(call.call, call.count, same->call, same->count));
  }
  const auto last = [](const std::vector<Told>& calls) {
    return calls.empty() ? "nothing on record" : calls.back().Call() + calls.back().Where();
  };
  return fmt::format(
      "{} and {} called different collectives, in calls too old to be on record; their last calls: {} called {}, and "
      "{} called {}",
      who, who_else, who, last(one), who_else, last(other));
}

}  // namespace

void Communicator::RequireSameCalls(ControlCall call, const AllGather& all_gather) {
  auto words = host_->failure_detector().history().Marks(ring::kRecords);
  words.insert(words.begin(), static_cast<std::uint64_t>(call));
  auto marks = GatherLists(all_gather, words);
  for (std::size_t r = 0; r < marks.size(); ++r) {
    if (marks[r].empty()) Throw(tuttiInternalError, "rank {} did not report which call it is in", r);
  }
  // Every rank finds the same one.
  const auto other =
      std::ranges::find_if(marks, [&](const auto& theirs) { return theirs.front() != marks.front().front(); });
  if (other != marks.end()) {
    const auto site = Site();
    const auto sites = GatherLists(all_gather, std::vector(site.begin(), site.end()));
    const auto called = [&](std::size_t r) {
      const std::string_view where(sites[r].data(), std::min(sites[r].size(), kToldSite));
      return fmt::format("{} called {}{}", host_->failure_detector().Who(static_cast<int>(r)),
                         NameOf(ControlCall{marks[r].front()}), Printable(where));
    };
    const auto which = static_cast<std::size_t>(other - marks.begin());
    throw Fail({tuttiInvalidUsage, fmt::format("{}{}, but {}", kMismatch, called(0), called(which))});
  }
  for (auto& theirs : marks) theirs.erase(theirs.begin());
  const auto odd = std::ranges::find_if(marks, [&](const auto& theirs) { return Differ(marks.front(), theirs); });
  if (odd == marks.end()) return;
  std::vector<Told> mine;
  diagnostics::SourceLines lines;
  for (const auto& record : diagnostics::ReadRecords(host_->control())) {
    if (!diagnostics::IsCollective(record)) continue;
    auto& told = mine.emplace_back(Told{record.sequence, record.signature, record.call, record.count, {}});
    const auto where = lines.At(host_->control().sites, record.site());
    where.copy(told.site.data(), told.site.size() - 1);
  }
  const auto calls = GatherLists(all_gather, mine);
  const auto which = static_cast<std::size_t>(odd - marks.begin());
  throw Fail({tuttiInvalidUsage,
              std::string(kMismatch) + WhichDiffer(calls.front(), host_->failure_detector().Who(0), calls[which],
                                                   host_->failure_detector().Who(static_cast<int>(which)))});
}

std::optional<Error> Communicator::Audit() {
  const auto found = host_->failure_detector().Audit();
  return found ? std::optional(Fail(*found)) : std::nullopt;
}

std::optional<Error> Communicator::LastAudit(bool waits) {
  if (failed()) return std::nullopt;
  if (device_ != nullptr) device_->failure_detector().LookNow();
  const std::lock_guard lock(*this);
  if (auto* const engine = host_->network()) {
    engine->Announce();
    engine->Progress();
  }
  auto& failure_detector = host_->failure_detector();
  auto found = failed() ? failure() : waits ? failure_detector.CompareLast() : failure_detector.Compare();
  // This rank has finished its calls, so failures that ended other ranks' calls do not concern it.
  if (!found || found->code() != tuttiInvalidUsage) return std::nullopt;
  return Fail(*found);
}

}  // namespace tutti::comm
