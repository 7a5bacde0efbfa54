// How ranks on different hosts notice that each other's processes have ended.
//
// A process on this host can be looked up (process.h); one on another host cannot. So in a group that spans hosts, a
// rank of another host watches each rank. The watcher holds a connection to it and receives over it one word that
// identifies the process, and nothing else. When a process ends, for whatever reason, its connections close, and the
// kernel reports that to the watcher at once. The watcher writes it on the board, where every waiting rank finds it.
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
  // `word` is unique to this process.
  Lifeline(std::string base, int rank, const std::vector<Process>& processes, std::string word,
           std::shared_ptr<Board> board);
  // Call often: answers the ranks that watch this one, and checks those that it watches. Throws Failure if the board is
  // gone.
  void Tend();

 private:
  struct Watched {
    int rank;
    std::unique_ptr<Descriptor> connection;  // null: not yet connected
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
