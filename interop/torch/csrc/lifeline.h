// How ranks of different hosts see each other's processes end.
//
// A process of this host can be looked up (process.h); one of another host cannot. So in a group of several hosts each
// rank is watched by a rank of another host. The watcher holds a connection to it, over which it gets one word that
// identifies the process, and nothing else. When a process ends, however it ends, its connections are closed, and the
// kernel reports that to the watcher at once. The watcher writes it on the board, where every rank that waits finds it.
//
// Silence proves nothing: a process that is stopped does not count as ended, nor does one behind a host or network that
// fails. A connection that never gave the right word proves nothing either: another machine may be behind the address.
// An end that no watcher sees shows only by the timeout of the ranks that wait. A watcher that ends together with the
// rank that it watches reports nothing.
//
// The address is the one from which this host reaches the store's host (MASTER_ADDR; else the host's name).
//
// Thread-safety: an object belongs to one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interop/torch/csrc/board.h"
#include "interop/torch/csrc/process.h"

namespace tutti::pytorch {

// Whether some of the processes cannot be looked up.
bool AreOfSeveralHosts(const std::vector<Process>& processes);

// REQUIRES: `base` is where this group writes on the board.
bool HasBeenSeenToEnd(const std::string& base, int rank, Board& board);

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int number() const { return number_; }
  bool IsOpen() const { return number_ >= 0; }

 private:
  int number_;
};

class Lifeline {
 public:
  // `word`: no other process has it.
  Lifeline(std::string base, int rank, const std::vector<Process>& processes, std::string word,
           std::shared_ptr<Board> board);
  // To be called often: answers the ranks that watch this one, and looks at those that it watches. Throws Failure if
  // the board has gone.
  void Tend();

 private:
  struct Watched {
    int rank;
    std::unique_ptr<Descriptor> connection;  // null: not yet
    std::string word;                        // the word that it must send
    std::string said;
    bool over = false;
  };

  void Accept();
  void Look(Watched& watched);

  const std::string base_;
  const std::string word_;
  const std::shared_ptr<Board> board_;
  std::unique_ptr<Descriptor> listener_;
  std::vector<Descriptor> watchers_;
  std::vector<Watched> watched_;
};

}  // namespace tutti::pytorch
