// Which NCCL we say that we are: TUTTI_NCCL_VERSION, "2.27.7" or 22707, or that of our nccl.h.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <optional>
#include <string_view>

namespace tutti::nccl {

// As NCCL_VERSION_CODE. Nothing if `text` is no version of NCCL since 2.9, when its codes took five digits.
std::optional<int> ParseVersion(std::string_view text);

// Throws Refusal if the setting is no version, TuttiFailure if any setting is wrong.
int Version();
// For where nothing may be thrown.
int VersionOrDefault() noexcept;

}  // namespace tutti::nccl
