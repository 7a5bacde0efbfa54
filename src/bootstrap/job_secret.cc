#include "src/bootstrap/job_secret.h"

#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/fork_safe_mutex.h"
#include "base/threads/made_once.h"
#include "net/wire.h"

namespace tutti::bootstrap {
namespace {

// About 50 ms of one core. More memory would hurt: hundreds of ranks on one host may compute a key at the same moment.
constexpr unsigned long long kPasses = 3;
constexpr std::size_t kMemory = std::size_t{16} << 20;

auth::SecretKey Stretch(std::string_view secret, std::span<const std::byte> job_facts) {
  const auto salt = auth::KeyedHash<crypto_pwhash_SALTBYTES>(auth::SecretKey(), "tutti salt", {job_facts});
  std::array<std::byte, auth::SecretKey::kBytes> bytes;
  if (crypto_pwhash(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), secret.data(), secret.size(),
                    reinterpret_cast<const unsigned char*>(salt.data()), kPasses, kMemory,
                    crypto_pwhash_ALG_ARGON2ID13) != 0) {
    Throw(tuttiSystemError, "cannot allocate the {} MiB needed to derive the job's key from TUTTI_SECRET",
          kMemory >> 20);
  }
  const auth::SecretKey key{std::span<const std::byte, auth::SecretKey::kBytes>(bytes)};
  sodium_memzero(bytes.data(), bytes.size());
  return key;
}

// The last key that this process computed: its ranks, and its communicators of one job, share it.
struct Last {
  ForkSafeMutex mutex;  // otherwise a child forked while a thread computes would wait for that thread forever
  std::array<std::byte, 32> of{};
  std::optional<auth::SecretKey> key;
};

// Never destroyed: another thread may still be joining when the process exits.
Last& LastKey() {
  static constinit MadeOnce<Last> last;
  return last.Get();
}

}  // namespace

auth::SecretKey KeyOfSecret(std::string_view secret, std::span<const std::byte> job_facts) {
  const auto password = auth::DeriveKey(auth::SecretKey(), "tutti password", {net::BytesOf(secret)});
  if (secret.empty()) return auth::DeriveKey(password, "tutti job secret", {job_facts});
  const auto of = auth::KeyedHash<32>(password, "tutti stretched", {job_facts});
  auto& last = LastKey();
  // Held while the key is computed: ranks that are threads of one process must wait instead of computing it again.
  const std::scoped_lock lock(last.mutex);
  if (!last.key || last.of != of) {
    last.key = Stretch(secret, job_facts);
    last.of = of;
  }
  return auth::DeriveKey(*last.key, "tutti job secret", {job_facts});
}

JoinTicket WithJobSecret(const JoinTicket& ticket, std::string_view secret) {
  if (!ticket.needs_job_secret) return ticket;
  if (secret.empty()) {
    Throw(tuttiInvalidUsage,
          "TUTTI_SECRET is not set, but it is where the unique id was made: set it to the same text on all ranks");
  }
  auto whole = ticket;
  whole.needs_job_secret = false;
  whole.secret = auth::DeriveKey(KeyOfSecret(secret, ticket.job), "tutti unique id", {ticket.secret.bytes()});
  return whole;
}

void RequireJobSecret(const JoinTicket& ticket, std::string_view secret) {
  if (secret.empty() || ticket.needs_job_secret || ticket.served_by_rank0) return;
  Throw(tuttiInvalidUsage,
        "TUTTI_SECRET is set, but it is not where the unique id was made: set it to the same text on all ranks");
}

}  // namespace tutti::bootstrap
