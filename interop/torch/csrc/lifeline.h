// How ranks on different hosts notice that each other's processes have ended.
//
// A process on this host can be looked up (process.h); one on another host cannot. So in a group that spans hosts, a
// rank of another host watches each rank. The watcher holds a connection to it, says the first half of a word that
// identifies the process, and receives the second half, and nothing else. When a process ends, for whatever reason, its
// connections close, and the kernel reports that to the watcher at once. The watcher writes it on the board, where every
// waiting rank finds it.
//
// Only the board has the word, so a watched rank knows its watcher from a stranger. Strangers who say nothing take places
// of their own, and the latest push out the oldest; a watcher that was pushed out comes again.
//
// Silence proves nothing: a stopped process has not ended, nor has one behind a failed host or network. A connection
// that never gave the right word proves nothing either, since another machine may have the address. An end that no
// watcher sees only shows when the waiting ranks time out. A watcher that ends together with the rank it watches
// reports nothing.
//
// The address is the one from which this host reaches the store's host (MASTER_ADDR; else the host's name).
//
// Thread-safety: an object belongs to one thread at a time.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "interop/torch/csrc/board.h"
#include "interop/torch/csrc/process.h"

namespace tutti::pytorch {

// Whether some of the processes are on different hosts and so cannot be looked up.
bool AreOfSeveralHosts(const std::vector<Process>& processes);

// REQUIRES: `base` is this group's key prefix on the board.
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
  // `word` is unique to this process, random, and has no spaces.
  Lifeline(std::string base, int rank, const std::vector<Process>& processes, std::string word,
           std::shared_ptr<Board> board);
  // Call often: answers the ranks that watch this one, and checks those that it watches. Throws Failure if the board is
  // gone.
  void Tend();

 private:
  struct Watched {
    int rank;
    std::unique_ptr<Descriptor> connection;  // null: not yet connected
    std::string word;
    std::string said;    // what it has sent of the second half
    bool asked = false;  // the first half is sent
    bool over = false;
  };

  struct Caller {
    Descriptor connection;
    std::string said;  // of the first half
  };

  void Accept();
  void Answer();
  void Connect(Watched& watched);
  void Look(Watched& watched);

  const std::string base_;
  const std::string word_;
  const std::shared_ptr<Board> board_;
  std::unique_ptr<Descriptor> listener_;
  std::list<Caller> callers_;         // that have not said the first half, the oldest first
  std::vector<Descriptor> watchers_;  // that have
  std::vector<Watched> watched_;
};

}  // namespace tutti::pytorch
