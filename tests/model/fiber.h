// A stack of its own for each thread of a model. All of them run in one thread of the system, which jumps between them.
//
// Thread-safety: one thread.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>

namespace tutti::model {

class Fiber {
 public:
  // Each time that it is started anew it calls `body`, which never returns: it jumps away.
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Whatever it was at, it begins at its body's beginning the next time.
  void Restart();
  // From the one whose place is `from`; returns when somebody jumps back there.
  static void Jump(std::jmp_buf& from, std::jmp_buf& to);
  std::jmp_buf& place() { return place_; }

 private:
  static void Start(unsigned low, unsigned high);

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  std::jmp_buf top_;
  std::jmp_buf place_;
};

}  // namespace tutti::model
