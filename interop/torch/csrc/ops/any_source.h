// Receiving from whichever rank sends first.
//
// The library receives from a named rank, and cannot report whether a message has arrived. So while a receive-from-any
// waits, AnySource posts a receive into its own memory for every rank that may send: a *held* message. The first to
// arrive is copied to the waiting receive. The others stay posted as the next messages of their ranks: the next receive
// from such a rank, by name or from any, gets them.
//
// Invariants: while a receive-from-any waits, every other rank whose queue has not failed has an unclaimed held
// message. Held messages of a sender and tag are handed out in the order of posting. A held message has the size and
// type of the receive that posted it; if the receive that gets it differs, that is an error, as it would be if the two
// had met directly.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "interop/torch/csrc/task_queues.h"

namespace tutti::pytorch {

class HeldMessage;

class AnySource {
 public:
  explicit AnySource(std::shared_ptr<TaskQueues> queues);
  AnySource(const AnySource&) = delete;
  AnySource& operator=(const AnySource&) = delete;

  // Waits for a message with `tag` and copies it to `tensor`; returns the sender.
  int Receive(const at::Tensor& tensor, int tag);
  // The next message from `from` if it is held, else null.
  std::shared_ptr<HeldMessage> Claim(int from, int tag);
  // REQUIRES: Claim returned it, and it has arrived, as is always so in later tasks of its queue.
  static void CopyTo(const HeldMessage& message, const at::Tensor& tensor);
  // From now on Receive throws, also where it is already waiting.
  void Close();

 private:
  friend class HeldMessage;
  struct State;

  const std::shared_ptr<State> state_;
  const std::shared_ptr<TaskQueues> queues_;
};

}  // namespace tutti::pytorch
