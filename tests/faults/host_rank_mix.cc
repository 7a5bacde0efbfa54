#include "tests/faults/host_rank_mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

namespace tutti::testing {
namespace {

// An operation on `share` elements for each rank, and its expected result.
struct Mixed {
  std::string_view name;
  std::function<tuttiResult_t(const float* in, float* out)> run;
  // Element i of the result, of `results`.
  std::function<float(std::size_t i)> right;
  std::size_t results;
};

}  // namespace

tuttiResult_t RunOneOfTheMix(tuttiComm_t comm, int rank, int ranks, std::size_t count, long turn, std::size_t salt,
                             std::optional<std::string>& wrong) {
  constexpr std::size_t kValues = 512;  // small, so that sums are exact
  const auto all = static_cast<std::size_t>(ranks), me = static_cast<std::size_t>(rank);
  const std::size_t share = std::max<std::size_t>(1, count / all);
  const auto common = [&](std::size_t element) { return (element + static_cast<std::size_t>(turn) + salt) % kValues; };
  const auto value = [&](std::size_t of, std::size_t element) { return static_cast<float>(common(element) + of); };
  const auto sum = [&](std::size_t element) { return static_cast<float>(common(element) * all + all * (all - 1) / 2); };
  const auto root = static_cast<std::size_t>(turn) % all;
  const auto at_root = me == root ? share : 0;
  const auto before = (me + all - 1) % all, after = (me + 1) % all;
  const std::vector<Mixed> mix = {
      {"all-gather", [&](auto* in, auto* out) { return tuttiAllGather(in, out, share, tuttiFloat, comm, nullptr); },
       [&](std::size_t i) { return value(i / share, i % share); }, share * all},
      {"reduce-scatter",
       [&](auto* in, auto* out) { return tuttiReduceScatter(in, out, share, tuttiFloat, tuttiSum, comm, nullptr); },
       [&](std::size_t i) { return sum(me * share + i); }, share},
      {"all-to-all", [&](auto* in, auto* out) { return tuttiAlltoAll(in, out, share, tuttiFloat, comm, nullptr); },
       [&](std::size_t i) { return value(i / share, me * share + i % share); }, share * all},
      {"broadcast",
       [&](auto* in, auto* out) {
         return tuttiBroadcast(in, out, share, tuttiFloat, static_cast<int>(root), comm, nullptr);
       },
       [&](std::size_t i) { return value(root, i); }, share},
      {"reduce",
       [&](auto* in, auto* out) {
         return tuttiReduce(in, out, share, tuttiFloat, tuttiSum, static_cast<int>(root), comm, nullptr);
       },
       sum, at_root},
      {"ring of messages",
       [&](auto* in, auto* out) {
         tuttiGroupStart();
         tuttiSend(in, share, tuttiFloat, static_cast<int>(after), comm, nullptr);
         tuttiRecv(out, share, tuttiFloat, static_cast<int>(before), comm, nullptr);
         return tuttiGroupEnd();
       },
       [&](std::size_t i) { return value(before, i); }, share},
      {"barrier", [&](auto*, auto*) { return tuttiBarrier(comm, nullptr); }, {}, 0},
  };
  const auto& mixed = mix[static_cast<std::size_t>(turn) % mix.size()];
  std::vector<float> in(share * all), out(share * all);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = value(me, i);
  const auto result = mixed.run(in.data(), out.data());
  for (std::size_t i = 0; result == tuttiSuccess && i < mixed.results && !wrong; ++i) {
    if (out[i] == mixed.right(i)) continue;
    wrong = fmt::format("element {} of the {} in turn {} is {}, not {}", i, mixed.name, turn, out[i], mixed.right(i));
  }
  return result;
}

}  // namespace tutti::testing
