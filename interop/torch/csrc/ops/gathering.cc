#include "interop/torch/csrc/ops/gathering.h"

#include <cstdio>
#include <random>
#include <sstream>
#include <utility>

#include "interop/torch/csrc/failure.h"
#include "interop/torch/csrc/lifeline.h"
#include "interop/torch/csrc/quiet_thread.h"

namespace tutti::pytorch {
namespace {

// How often a thread that waits for the roster checks whether the wait was cancelled.
constexpr auto kLook = std::chrono::milliseconds(10);

// How often this rank answers its watchers and checks the ranks that it watches.
constexpr auto kTend = std::chrono::milliseconds(100);

// A unique word: 128 random bits.
std::string NewWord() {
  std::random_device random;
  std::string word;
  for (int i = 0; i < 4; ++i) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", random());
    word += digits;
  }
  return word;
}

}  // namespace

Gathering::Gathering(GroupIdentity identity, std::shared_ptr<Board> board)
    : identity_(std::move(identity)), board_(std::move(board)) {
  thread_ = QuietThread([this] { Run(); });
}

Gathering::~Gathering() { Stop(); }

void Gathering::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_.store(true, std::memory_order_relaxed);
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::string Gathering::Key(const std::string& token, const std::string& what) const {
  return identity_.name + "/" + token + "/" + what;
}

void Gathering::Run() {
  std::unique_ptr<const Roster> roster;
  std::exception_ptr failure;
  try {
    roster = std::make_unique<const Roster>(identity_.rank == 0 ? Call() : Answer());
  } catch (...) {
    failure = std::current_exception();
  }
  const Roster* complete = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (failure == nullptr && !IsStopped()) {
      has_far_ranks_ = AreOfSeveralHosts(roster->processes);
      roster_ = std::move(roster);
      complete = roster_.get();
    }
    failure_ = failure;
    changed_.notify_all();
  }
  if (complete != nullptr && has_far_ranks_) Tend(*complete);
}

void Gathering::Tend(const Roster& roster) {
  try {
    Lifeline lifeline(Key(roster.token, ""), identity_.rank, roster.processes, NewWord(), board_);
    std::unique_lock lock(mutex_);
    while (!IsStopped()) {
      lock.unlock();
      lifeline.Tend();
      lock.lock();
      changed_.wait_for(lock, kTend, [this] { return IsStopped(); });
    }
  } catch (...) {
    // The board is gone. Waiting ranks see that, too.
  }
}

bool Gathering::HasEnded(int rank) const {
  return roster_->processes[static_cast<std::size_t>(rank)].HasEnded() ||
         (has_far_ranks_ && HasBeenSeenToEnd(Key(roster_->token, ""), rank, *board_));
}

void Gathering::CheckThatOthersLive() {
  const auto now = std::chrono::steady_clock::now();
  if (identity_.processes.empty() || now < next_check_) return;
  if (ended_ >= 0) {
    throw Failure(tuttiRemoteError, std::string("tutti: ") + tuttiGetErrorString(tuttiRemoteError) + ": " +
                                        DescribeRank(identity_, ended_) + " (" +
                                        identity_.processes[static_cast<std::size_t>(ended_)].Text() + ") died while " +
                                        DescribeRank(identity_, identity_.rank) + " (" + Process::Own().Text() +
                                        ") waited for it to join \"" + identity_.name + "\"");
  }
  for (int rank = 0; rank < identity_.ranks && ended_ < 0; ++rank) {
    if (identity_.processes[static_cast<std::size_t>(rank)].HasEnded()) ended_ = rank;
  }
  next_check_ = now + kLookAfterOthers;
}

Roster Gathering::Call() {
  Roster roster{NewWord(), {Process::Own()}};
  board_->Write(identity_.name + "/call", roster.token);
  {
    const std::lock_guard lock(mutex_);
    token_ = roster.token;
  }
  auto answers = "- " + roster.processes[0].Word();
  for (int rank = 1; rank < identity_.ranks; ++rank) {
    const auto key = Key(roster.token, "here/" + std::to_string(rank));
    for (Pauses pauses; !board_->Has(key); pauses.Sleep()) {
      if (IsStopped()) return roster;
      CheckThatOthersLive();
    }
    const auto answer = board_->Read(key);
    answers += "\n" + answer;
    roster.processes.push_back(Process::FromWord(answer.substr(answer.find(' ') + 1)));
  }
  board_->Write(Key(roster.token, "roster"), answers);
  return roster;
}

Roster Gathering::Answer() {
  const auto own = NewWord() + " " + Process::Own().Word();
  std::string token;
  for (Pauses pauses; !IsStopped(); pauses.Sleep()) {
    CheckThatOthersLive();
    if (!board_->Has(identity_.name + "/call")) continue;
    if (const auto called = board_->Read(identity_.name + "/call"); called != token) {
      token = called;
      board_->Write(Key(token, "here/" + std::to_string(identity_.rank)), own);
      const std::lock_guard lock(mutex_);
      token_ = token;
    }
    if (!board_->Has(Key(token, "roster"))) continue;
    std::istringstream lines(board_->Read(Key(token, "roster")));
    Roster roster{token, {}};
    bool has_own = false;
    for (std::string line; std::getline(lines, line);) {
      has_own = has_own || line == own;
      roster.processes.push_back(Process::FromWord(line.substr(line.find(' ') + 1)));
    }
    if (has_own && roster.processes.size() == static_cast<std::size_t>(identity_.ranks)) return roster;
  }
  return {};
}

const Roster* Gathering::Wait(const Patience& patience) {
  std::unique_lock lock(mutex_);
  while (roster_ == nullptr && failure_ == nullptr && !patience.cancelled.load(std::memory_order_relaxed) &&
         std::chrono::steady_clock::now() < patience.until) {
    changed_.wait_for(lock, kLook);
  }
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  return roster_.get();
}

std::vector<int> Gathering::Absent() {
  std::string token;
  {
    const std::lock_guard lock(mutex_);
    token = token_;
  }
  std::vector<int> absent;
  // No token yet, or all ranks have answered an old one: rank 0 has not called with a new one.
  if (token.empty() || (identity_.rank != 0 && board_->Has(Key(token, "roster")))) return {0};
  for (int rank = 1; rank < identity_.ranks; ++rank) {
    if (!board_->Has(Key(token, "here/" + std::to_string(rank)))) absent.push_back(rank);
  }
  return absent;
}

}  // namespace tutti::pytorch
