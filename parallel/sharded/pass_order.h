// The order in which passes use units: a forward goes through the units of a chunk, a backward goes back through them.
// After a pass's last unit comes the first one of the next pass, if the application has named it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tutti::parallel {

class PassOrder {
 public:
  // `chunks`: of each unit; units of a chunk follow each other.
  explicit PassOrder(std::vector<int> chunks);

  // For the end of one pass, whichever ends first. Throws Error (tuttiInvalidArgument) where there is no such unit.
  void SetNextPass(std::optional<std::size_t> first_unit);
  // Each of these returns the unit whose parameters are needed next, after `unit`; none if that is not known, or if the
  // pass goes on without parameters. After a pass's last unit it uses up what SetNextPass() was told.
  std::optional<std::size_t> AfterForward(std::size_t unit);
  std::optional<std::size_t> AfterBackward(std::size_t unit);  // also the first part of two
  std::optional<std::size_t> AfterBackwardWeight(std::size_t unit);

 private:
  bool EndsForward(std::size_t unit) const;
  bool EndsBackward(std::size_t unit) const { return unit == 0 || EndsForward(unit - 1); }
  std::optional<std::size_t> TakeNextPass();

  std::vector<int> chunks_;
  std::optional<std::size_t> next_pass_;  // its first unit
};

}  // namespace tutti::parallel
