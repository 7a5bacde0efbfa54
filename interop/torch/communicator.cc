#include "interop/torch/communicator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>

#include "interop/torch/failure.h"

namespace tutti::pytorch {
namespace {

using Clock = std::chrono::steady_clock;

// How often the board is looked at: at first often, since the others are usually on their way; then it is left alone.
constexpr auto kFirstPause = std::chrono::microseconds(200);
constexpr auto kLongestPause = std::chrono::milliseconds(10);

std::string HereKey(const Meeting& meeting, int rank) { return meeting.name + "/here/" + std::to_string(rank); }
std::string IdKey(const Meeting& meeting) { return meeting.name + "/id"; }

// What rank 0 tells the others: an id, or why there is none.
constexpr char kId = '+';
constexpr char kNone = '-';

std::string Absent(const Meeting& meeting, Board& board) {
  std::string absent;
  for (int rank = 0; rank < meeting.ranks; ++rank) {
    if (board.Has(HereKey(meeting, rank))) continue;
    absent += (absent.empty() ? "" : ", ") + meeting.describe_rank(rank);
  }
  return absent;
}

void WaitFor(const std::string& key, const Meeting& meeting, Board& board, Clock::time_point until,
             const std::atomic<bool>& cancelled) {
  auto pause = std::chrono::duration_cast<Clock::duration>(kFirstPause);
  while (!board.Has(key)) {
    // Relaxed: nothing is read on the strength of it.
    if (cancelled.load(std::memory_order_relaxed)) {
      throw Failure(tuttiRemoteError, "tutti: " + meeting.name + ": the process group was destroyed before all " +
                                          std::to_string(meeting.ranks) + " ranks had come");
    }
    if (Clock::now() >= until) {
      throw Failure(tuttiTimeoutError, "tutti: " + meeting.name + ": after the timeout of " +
                                           std::to_string(meeting.timeout.count()) +
                                           " ms these have not come to make the communicator of " +
                                           std::to_string(meeting.ranks) + " ranks: " + Absent(meeting, board) +
                                           ". See why they do not call it, or raise the group's timeout");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<Clock::duration>(pause + pause / 2, kLongestPause);
  }
}

tuttiUniqueId MakeId(const Meeting& meeting, Board& board) {
  tuttiUniqueId id{};
  try {
    Check(tuttiGetUniqueId(&id), nullptr);
  } catch (const Failure& failure) {
    board.Write(IdKey(meeting), kNone + std::string(failure.what()));
    throw;
  }
  board.Write(IdKey(meeting), kId + std::string(id.internal, sizeof id.internal));
  return id;
}

tuttiUniqueId ReadId(const Meeting& meeting, Board& board) {
  const auto announcement = board.Read(IdKey(meeting));
  tuttiUniqueId id{};
  if (announcement.size() != 1 + sizeof id.internal || announcement[0] != kId) {
    throw Failure(tuttiRemoteError, "tutti: " + meeting.name + ": " + meeting.describe_rank(0) +
                                        " could not make a rendezvous: " +
                                        (announcement.empty() ? announcement : announcement.substr(1)));
  }
  std::memcpy(id.internal, announcement.data() + 1, sizeof id.internal);
  return id;
}

int Milliseconds(std::chrono::milliseconds time) {
  constexpr std::int64_t kDay = 86'400'000;  // the library's longest
  return static_cast<int>(std::clamp<std::int64_t>(time.count(), 1, kDay));
}

}  // namespace

std::unique_ptr<Communicator> Communicator::Meet(const Meeting& meeting, Board& board,
                                                 const std::atomic<bool>& cancelled) {
  const auto until = Clock::now() + meeting.timeout;
  board.Write(HereKey(meeting, meeting.rank), "");
  tuttiUniqueId id{};
  if (meeting.rank == 0) {
    for (int rank = 1; rank < meeting.ranks; ++rank) {
      WaitFor(HereKey(meeting, rank), meeting, board, until, cancelled);
    }
    id = MakeId(meeting, board);
  } else {
    WaitFor(IdKey(meeting), meeting, board, until, cancelled);
    id = ReadId(meeting, board);
  }
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.initTimeoutMs = Milliseconds(meeting.timeout);
  config.operationTimeoutMs = Milliseconds(meeting.timeout);
  config.name = meeting.name.c_str();
  config.device = meeting.device;
  tuttiComm_t comm = nullptr;
  Check(tuttiCommInitRankConfig(&comm, meeting.ranks, id, meeting.rank, &config), nullptr);
  return std::unique_ptr<Communicator>(new Communicator(comm));
}

// Nobody can be told of a failure here, and none leaves anything behind.
Communicator::~Communicator() {
  if (before_end_) before_end_();
  static_cast<void>(tuttiCommDestroy(comm_));
}

void Communicator::Stop() { static_cast<void>(tuttiCommRevoke(comm_)); }

}  // namespace tutti::pytorch
