#include "tests/model/fiber.h"

#include <ucontext.h>

#include <cstdint>
#include <cstring>

namespace tutti::model {
namespace {

constexpr std::size_t kStack = std::size_t{1} << 18;
ucontext_t made_from;  // where Start() returns to once, when a fiber is created

}  // namespace

// makecontext() passes only integers.
void Fiber::Start(unsigned low, unsigned high) {
  auto* const self = reinterpret_cast<Fiber*>(std::uint64_t{high} << 32 | low);
  ucontext_t here;
  if (_setjmp(self->top_) == 0) swapcontext(&here, &made_from);
  self->body_();
}

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(new std::byte[kStack]) {
  ucontext_t start;
  getcontext(&start);
  start.uc_stack.ss_sp = stack_.get();
  start.uc_stack.ss_size = kStack;
  start.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uint64_t>(this);
  makecontext(&start, reinterpret_cast<void (*)()>(&Fiber::Start), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32));
  swapcontext(&made_from, &start);
  Restart();
}

void Fiber::Restart() { std::memcpy(&place_, &top_, sizeof place_); }

void Fiber::Jump(std::jmp_buf& from, std::jmp_buf& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}

}  // namespace tutti::model
