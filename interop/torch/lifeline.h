// How ranks of different hosts see each other's processes end.
//
// A process of this host can be looked up (process.h); one of another host cannot. So in a group of several hosts each
// rank is watched by a rank of another host: the watcher holds a connection to it, over which it gets a word that says
// who is there, and nothing else. A process that ends closes its connections, however it ends, and the kernel tells the
// watcher at once. The watcher writes it on the board, where every rank that waits finds it.
//
// Nothing is concluded from silence: a process that is stopped, or a host or network that fails, is not taken for
// ended. Nor is a connection that never gave the right word: there may be another machine behind the address. What a
// watcher cannot see, those who wait learn by their timeout. A watcher that ends with the one it watches tells nobody.
//
// The address is the one that this host reaches the store's host from (MASTER_ADDR; else the host's name).
//
// Thread-safety: an object belongs to one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interop/torch/board.h"
#include "interop/torch/process.h"

namespace tutti::pytorch {

// Whether there is anybody that cannot be looked up.
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
  // `word`: nobody else has it.
  Lifeline(std::string base, int rank, const std::vector<Process>& processes, std::string word,
           std::shared_ptr<Board> board);
  // To be called often: answers those who watch this rank, and watches others. Throws Failure if the board has gone.
  void Tend();

 private:
  struct Watched {
    int rank;
    std::unique_ptr<Descriptor> connection;  // null: not yet
    std::string word;                        // what it is to say
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
