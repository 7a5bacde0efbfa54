#include "interop/torch/csrc/communicator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "interop/torch/csrc/failure.h"

namespace tutti::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

std::string Key(const Meeting& meeting, const Roster& roster, const std::string& what) {
  return roster.token + "/" + meeting.name + "/" + what;
}
std::string HereKey(const Meeting& meeting, const Roster& roster, int rank) {
  return Key(meeting, roster, "here/" + std::to_string(rank));
}
std::string IdKey(const Meeting& meeting, const Roster& roster) { return Key(meeting, roster, "id"); }

// First byte of rank 0's message to the others: an id follows, or the reason why there is none.
constexpr char kId = '+';
constexpr char kNone = '-';

std::string NamesOf(const Meeting& meeting, const std::vector<int>& group_ranks) {
  std::string names;
  for (const auto rank : group_ranks) names += (names.empty() ? "" : ", ") + meeting.describe_rank(rank);
  return names;
}

[[noreturn]] void ThrowAbsent(const Meeting& meeting, const std::vector<int>& absent, const char* to_do_what) {
  throw Failure(tuttiTimeoutError, "tutti: " + meeting.name + ": after the timeout of " +
                                       std::to_string(meeting.timeout.count()) + " ms these ranks have not joined to " +
                                       to_do_what + " of " + std::to_string(meeting.ranks) +
                                       " ranks: " + NamesOf(meeting, absent) +
                                       ". Find out why they do not make the call, or raise the group's timeout");
}

[[noreturn]] void ThrowDestroyed(const Meeting& meeting) {
  throw Failure(tuttiRemoteError, "tutti: " + meeting.name +
                                      ": the process group was destroyed, aborted or reconfigured before all " +
                                      std::to_string(meeting.ranks) + " ranks had joined");
}

std::vector<int> Absent(const Meeting& meeting, const Roster& roster, Board& board) {
  std::vector<int> absent;
  for (int rank = 0; rank < meeting.ranks; ++rank) {
    if (!board.Has(HereKey(meeting, roster, rank))) {
      absent.push_back(meeting.group_ranks[static_cast<std::size_t>(rank)]);
    }
  }
  return absent;
}

// A rank may end because another one has. So before a rank that missed another fails, it writes on the board which rank
// it missed first, and later ranks name that one. `missed`, result: ranks of the group.
int FirstThatEnded(int missed, const Meeting& meeting, const Roster& roster, Board& board) {
  const auto key = roster.token + "/missed-first";
  try {
    if (!board.Has(key)) board.Write(key, std::to_string(missed));
    const auto written = board.Read(key);
    for (int rank = 0; rank < static_cast<int>(roster.processes.size()); ++rank) {
      if (written == std::to_string(rank) && meeting.gathering->HasEnded(rank)) return rank;
    }
  } catch (const Failure&) {
    // The board is gone, perhaps with the rank that has ended.
  }
  return missed;
}

void CheckThatOthersLive(const Meeting& meeting, const Roster& roster, Board& board) {
  const auto described = [&](int group_rank) {
    return meeting.describe_rank(group_rank) + " (" + roster.processes[static_cast<std::size_t>(group_rank)].Text() +
           ")";
  };
  for (int rank = 0; rank < meeting.ranks; ++rank) {
    const auto group_rank = meeting.group_ranks[static_cast<std::size_t>(rank)];
    if (rank == meeting.rank || !meeting.gathering->HasEnded(group_rank)) continue;
    const int first = FirstThatEnded(group_rank, meeting, roster, board);
    const auto& waited_for = meeting.group_ranks;
    const int named = std::find(waited_for.begin(), waited_for.end(), first) != waited_for.end() ? first : group_rank;
    throw Failure(
        tuttiRemoteError,
        std::string("tutti: ") + tuttiGetErrorString(tuttiRemoteError) + ": " + described(named) +
            (roster.processes[static_cast<std::size_t>(named)].HasEnded() ? " died while "
                                                                          : " died or left the group while ") +
            described(meeting.group_ranks[static_cast<std::size_t>(meeting.rank)]) +
            " waited for it to make the communicator of " + std::to_string(meeting.ranks) + " ranks of \"" +
            meeting.name + "\"" + (named == first ? "" : "; " + described(first) + " had ended before"));
  }
}

const Roster& GatherFirst(const Meeting& meeting, const Patience& patience) {
  if (const auto* const roster = meeting.gathering->Wait(patience)) return *roster;
  // Relaxed: no other data depends on the flag.
  if (patience.cancelled.load(std::memory_order_relaxed)) ThrowDestroyed(meeting);
  ThrowAbsent(meeting, meeting.gathering->Absent(), "make the group, which is needed to make the communicator");
}

void WaitFor(const std::string& key, const Meeting& meeting, const Roster& roster, Board& board,
             const Patience& patience) {
  auto next_look = Clock::now();
  for (Pauses pauses; !board.Has(key); pauses.Sleep()) {
    if (patience.cancelled.load(std::memory_order_relaxed)) ThrowDestroyed(meeting);
    const auto now = Clock::now();
    if (now >= patience.until) ThrowAbsent(meeting, Absent(meeting, roster, board), "make the communicator");
    if (now < next_look) continue;
    try {
      CheckThatOthersLive(meeting, roster, board);
    } catch (const Failure&) {
      if (!board.Has(key)) throw;  // else the rank wrote the key before it ended
    }
    next_look = now + kLookAfterOthers;
  }
}

// Rank 0's wait for the other ranks. If it gives up, it writes the reason for them.
void WaitForOthers(const Meeting& meeting, const Roster& roster, Board& board, const Patience& patience) {
  try {
    for (int rank = 1; rank < meeting.ranks; ++rank) {
      WaitFor(HereKey(meeting, roster, rank), meeting, roster, board, patience);
    }
  } catch (const Failure& failure) {
    board.Write(IdKey(meeting, roster), kNone + std::string(failure.what()));
    throw;
  }
}

tuttiUniqueId MakeId(const Meeting& meeting, const Roster& roster, Board& board) {
  tuttiUniqueId id{};
  try {
    Check(tuttiGetUniqueId(&id), nullptr);
  } catch (const Failure& failure) {
    board.Write(IdKey(meeting, roster), kNone + std::string(failure.what()));
    throw;
  }
  board.Write(IdKey(meeting, roster), kId + std::string(id.internal, sizeof id.internal));
  return id;
}

tuttiUniqueId ReadId(const Meeting& meeting, const Roster& roster, Board& board) {
  const auto announcement = board.Read(IdKey(meeting, roster));
  tuttiUniqueId id{};
  if (announcement.size() != 1 + sizeof id.internal || announcement[0] != kId) {
    throw Failure(tuttiRemoteError, "tutti: " + meeting.name + ": " + meeting.describe_rank(meeting.group_ranks[0]) +
                                        " could not make a rendezvous: " +
                                        (announcement.empty() ? announcement : announcement.substr(1)));
  }
  std::memcpy(id.internal, announcement.data() + 1, sizeof id.internal);
  return id;
}

int Milliseconds(std::chrono::milliseconds time) {
  constexpr std::int64_t kDay = 86'400'000;  // the library's longest timeout
  return static_cast<int>(std::clamp<std::int64_t>(time.count(), 1, kDay));
}

}  // namespace

std::unique_ptr<Communicator> Communicator::Meet(const Meeting& meeting, Board& board,
                                                 const std::atomic<bool>& cancelled) {
  const Patience patience{Clock::now() + meeting.timeout, cancelled};
  const auto& roster = GatherFirst(meeting, patience);
  board.Write(HereKey(meeting, roster, meeting.rank), "");
  tuttiUniqueId id{};
  if (meeting.rank == 0) {
    WaitForOthers(meeting, roster, board, patience);
    id = MakeId(meeting, roster, board);
  } else {
    WaitFor(IdKey(meeting, roster), meeting, roster, board, patience);
    id = ReadId(meeting, roster, board);
  }
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.initTimeoutMs = Milliseconds(meeting.timeout);
  config.operationTimeoutMs = Milliseconds(meeting.operation_timeout);
  config.name = meeting.name.c_str();
  config.device = meeting.device;
  tuttiComm_t comm = nullptr;
  Check(tuttiCommInitRankConfig(&comm, meeting.ranks, id, meeting.rank, &config), nullptr);
  return std::unique_ptr<Communicator>(new Communicator(comm));
}

// A destructor cannot report failures, and these leave nothing behind.
Communicator::~Communicator() {
  if (before_end_) before_end_();
  static_cast<void>(tuttiCommDestroy(comm_));
}

void Communicator::Stop() { static_cast<void>(tuttiCommRevoke(comm_, TUTTI_REVOKE_DEFAULT)); }

}  // namespace tutti::pytorch
