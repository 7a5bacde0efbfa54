// Receiving from whoever sends first.
//
// The library receives from a rank, and cannot be asked whether something has come. So while somebody waits for a
// message from anybody, a receive into memory of our own is posted for every rank that it may come from: a *held*
// message. The first that arrives is copied to who waits. The others stay posted, and are the next messages of their
// ranks: whatever is received from such a rank next, by name or from anybody, gets them.
//
// Invariants: while a receive-from-anybody waits, every other rank has a held message that is nobody's yet, except
// those whose channel failed. Held messages of a sender and tag are given out in the order of posting. A held message
// has the size and type of the receive that posted it; if that which gets it has another, that is an error, as it would
// be if the two had met without it.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "interop/torch/csrc/channels.h"

namespace tutti::pytorch {

class HeldMessage;

class AnySource {
 public:
  explicit AnySource(std::shared_ptr<Channels> channels);
  AnySource(const AnySource&) = delete;
  AnySource& operator=(const AnySource&) = delete;

  // Waits for a message with `tag` and copies it to `tensor`; returns who sent it.
  int Receive(const at::Tensor& tensor, int tag);
  // The next message from `from`, if it is held; null: it is not.
  std::shared_ptr<HeldMessage> Claim(int from, int tag);
  // REQUIRES: Claim gave it, and it has arrived, as it has for tasks of its channel.
  static void CopyTo(const HeldMessage& message, const at::Tensor& tensor);
  // Receive throws from now on, also where it is waiting.
  void Close();

 private:
  friend class HeldMessage;
  struct State;

  const std::shared_ptr<State> state_;
  const std::shared_ptr<Channels> channels_;
};

}  // namespace tutti::pytorch
