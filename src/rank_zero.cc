#include "src/rank_zero.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace tutti {
namespace {

// What was found, or the reason why nothing was.
constexpr char kFound[] = "found";
constexpr char kError[] = "error";

// A message may quote a file, whose words may be long.
constexpr std::size_t kMaxError = 4096;

}  // namespace

nlohmann::json FromRankZero(int rank, const AllGather& all_gather, const std::function<nlohmann::json()>& find) {
  std::vector<std::uint8_t> mine;
  if (rank == 0) {
    nlohmann::json shipped;
    try {
      shipped[kFound] = find();
    } catch (const Error& error) {
      shipped[kError] = std::string(error.what()).substr(0, kMaxError);
    }
    // JSON in binary: texts keep their length, and paths may have any bytes.
    mine = nlohmann::json::to_cbor(shipped);
  }
  const auto all = all_gather(std::as_bytes(std::span(mine)));
  const std::span theirs(reinterpret_cast<const std::uint8_t*>(all.front().data()), all.front().size());
  auto shipped = nlohmann::json::from_cbor(theirs.begin(), theirs.end(), true, false);
  if (shipped.is_object() && shipped.contains(kError)) {
    Throw(tuttiInvalidArgument, "{}", shipped[kError].get<std::string>());
  }
  if (!shipped.is_object() || !shipped[kFound].is_object()) Throw(tuttiInternalError, "rank 0 sent nothing readable");
  return std::move(shipped[kFound]);
}

}  // namespace tutti
