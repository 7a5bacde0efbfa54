// Calls that run together at the end of `with tutti.group():`.
//
// Thread-safety: a group belongs to the thread that opened it. Functions need the GIL.
#pragma once

#include <optional>

#include "stream.h"
#include "task.h"

namespace tutti_python {

class Group {
 public:
  // This thread's open group, or null.
  static Group* Open();

  Group() = default;
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Opens it; inside an open group, its calls join that one's.
  void Begin();
  // Runs the calls of the outermost group: in this thread, or on the stream, if one is given.
  std::optional<Work> End(Stream* stream);
  // Ends it and runs nothing: a failure came between.
  void Drop();

  void Add(Call call, std::unique_ptr<Arrays> arrays);

 private:
  bool Leave();  // true: it was the outermost

  std::vector<Call> calls_;
  KeptPointer kept_{new Kept};
  Group* outer_ = nullptr;
  bool begun_ = false;
};

}  // namespace tutti_python
