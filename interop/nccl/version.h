// The NCCL version that the library reports: TUTTI_NCCL_VERSION, "2.27.7" or 22707, or the one whose functions it has.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <optional>
#include <string_view>

namespace tutti::nccl {

// Returns an NCCL_VERSION_CODE. Nothing if `text` is no version of NCCL since 2.9, when its codes became five digits.
std::optional<int> ParseVersion(std::string_view text);

// Throws Refusal if the setting is no version, TuttiFailure if any setting is invalid.
int Version();
// For callers that must not throw.
int VersionOrDefault() noexcept;

}  // namespace tutti::nccl
