// The key of a job whose ranks got a text as their secret (TUTTI_SECRET), alone or beside a unique id's.
//
// People choose short texts, and an attacker who has seen one proof of a rank can try texts until one fits. Argon2id
// (RFC 9106) makes each try expensive, with the job's own facts as salt, so that no table of tries serves two jobs. An
// empty text protects nothing and is not stretched; secrets of unique ids (256 random bits) are not
// stretched either.
//
// Thread-safety: safe to call anywhere; a process computes the same key once, however many ranks it has.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "net/auth/secret_key.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

// Throws tuttiSystemError if the memory for it (16 MiB) is missing.
auth::SecretKey KeyOfSecret(std::string_view secret, std::span<const std::byte> job_facts);

// The ticket by which to join: `ticket` itself, or one whose secret comes from the ticket's and from `secret`, the text of
// TUTTI_SECRET. Throws as KeyOfSecret, or tuttiInvalidUsage if the ticket needs the text and there is none.
JoinTicket WithJobSecret(const JoinTicket& ticket, std::string_view secret);
// For ids that come from outside. Throws tuttiInvalidUsage if there is a text, but the id does without: whoever can change
// what is passed on could have put another one there.
void RequireJobSecret(const JoinTicket& ticket, std::string_view secret);

}  // namespace tutti::bootstrap
