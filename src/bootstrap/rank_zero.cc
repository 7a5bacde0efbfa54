#include "src/bootstrap/rank_zero.h"

#include <cstdint>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/all_gather.h"
#include "base/plain_text.h"
#include "src/bootstrap/control_plane.h"

namespace tutti::bootstrap {
namespace {

// Keys of the reply that gives the reason why nothing was found.
constexpr char kError[] = "error";
constexpr char kCode[] = "code";

std::vector<std::uint8_t> Failed(tuttiResult_t code, std::string_view what) {
  return nlohmann::json::to_cbor({{kError, Printable(what)}, {kCode, static_cast<int>(code)}});
}

// Binary JSON: texts keep their length, and paths may have any bytes.
std::vector<std::uint8_t> Shipped(const std::function<nlohmann::json()>& find) {
  try {
    auto found = nlohmann::json::to_cbor(find());
    if (found.size() <= ControlPlane::kMaxBlob) return found;
    return Failed(tuttiInvalidArgument, fmt::format("rank 0 must send {} bytes of files to all ranks; the limit is {}",
                                                    found.size(), ControlPlane::kMaxBlob));
  } catch (const Error& error) {
    return Failed(tuttiInvalidArgument, error.what());
  } catch (const std::bad_alloc&) {
    return Failed(tuttiSystemError, "rank 0 ran out of memory");
  } catch (const std::exception& exception) {
    return Failed(tuttiInternalError, fmt::format("rank 0: {}", exception.what()));
  }
}

}  // namespace

JsonDocument FromRankZero(int rank, const AllGather& all_gather, const std::function<nlohmann::json()>& find) {
  const std::vector<std::uint8_t> mine = rank == 0 ? Shipped(find) : std::vector<std::uint8_t>();
  const auto all = all_gather(std::as_bytes(std::span(mine)));
  const std::span theirs(reinterpret_cast<const std::uint8_t*>(all.front().data()), all.front().size());
  auto shipped = JsonDocument::FromBinary(theirs, "what rank 0 sent");
  const auto root = shipped.root();
  if (root.Has(kError)) {
    const auto code = root.Whole(kCode, 0, tuttiNumResults - 1);
    Throw(static_cast<tuttiResult_t>(code), "{}", root.Text(kError));
  }
  return shipped;
}

}  // namespace tutti::bootstrap
