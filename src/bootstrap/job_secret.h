// The key of a job whose ranks got a text as their secret (TUTTI_SECRET).
//
// People choose short texts, and an attacker who has seen one proof of a rank can try texts until one fits. Argon2id
// (RFC 9106) makes each try expensive, with the job's own facts as salt, so that no table of tries serves two jobs. An
// empty text protects nothing and is not stretched; secrets of unique ids (256 random bits) never come here.
//
// Thread-safety: safe to call anywhere; a process computes the same key once, however many ranks it has.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "net/auth/secret_key.h"

namespace tutti::bootstrap {

// Throws tuttiSystemError if the memory for it (16 MiB) is missing.
auth::SecretKey KeyOfSecret(std::string_view secret, std::span<const std::byte> job_facts);

}  // namespace tutti::bootstrap
