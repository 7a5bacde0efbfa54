// A separate stack for each thread of a model. All run in one system thread, which jumps between them.
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
  // At each start the fiber calls `body`, which never returns: it jumps away.
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the fiber begin at its body's beginning next time, wherever it was.
  void Restart();
  // Jumps from the fiber whose place is `from`; returns when another fiber jumps back there.
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
