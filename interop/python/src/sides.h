// The input and the output of a call: taken from Python's arguments, checked, and allocated where the caller gave none.
//
// Thread-safety: functions need the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "allocation.h"
#include "task.h"

namespace tutti_python {

struct Side {
  void* data = nullptr;
  std::size_t count = 0;  // elements of the array
};

struct Sides {
  Side in, out;
  Element element;
  nanobind::object result;  // the output's array
};

// Takes `send` and `recv`. If they are the same object, the call is in place. If `recv` is None, it becomes a new array
// like `send` of shape `shape_of(send's array)`. Raises InvalidArgumentError if their elements differ.
template <typename ShapeOf>
Sides TakeBoth(Arrays& arrays, nanobind::handle send, nanobind::handle recv, const ShapeOf& shape_of);
// Only an input, or only an output. `what`: the argument's name, for messages.
Sides TakeSend(Arrays& arrays, nanobind::handle send);
Sides TakeReceive(Arrays& arrays, nanobind::handle recv, const char* what = "recv");

// Raises InvalidArgumentError unless the side has `needed` elements; `why` ends the sentence.
void RequireCount(const char* what, const Side& side, std::size_t needed, const char* why);
// As many elements as each of `ranks` equal parts of the side has. Raises InvalidArgumentError if they are not equal.
std::size_t PartOf(const char* what, const Side& side, int ranks);
// Raises InvalidArgumentError unless both arrays have elements of the same type, on the same kind of memory.
void RequireSameKind(const Arrays& arrays);

// The operator of a name ("sum", "prod", "max", "min", "avg") or a tutti.Op.
tuttiRedOp_t OpOf(nanobind::handle op);

template <typename ShapeOf>
Sides TakeBoth(Arrays& arrays, nanobind::handle send, nanobind::handle recv, const ShapeOf& shape_of) {
  if (send.is(recv) && !send.is_none()) {
    auto sides = TakeReceive(arrays, recv);
    sides.in = sides.out;
    return sides;
  }
  auto sides = TakeSend(arrays, send);
  sides.result =
      recv.is_none() ? NewLike(send, arrays.send, shape_of(arrays.send)) : nanobind::borrow<nanobind::object>(recv);
  arrays.receive.Take(sides.result, "recv", Access::kWrite);
  RequireSameKind(arrays);
  sides.out = {arrays.receive.data(), arrays.receive.count()};
  return sides;
}

}  // namespace tutti_python
