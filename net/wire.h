// Numbers and texts as bytes, little-endian, for everything the bootstrap sends.
//
// A reader never reads past its input: the first missing byte makes it fail for good, and from then on every read gives
// zeros. So a parser reads all its fields and checks once, at the end, whether they were there.
//
// Thread-safety: none needed; one thread per object.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::net {

inline std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

class ByteWriter {
 public:
  // Reserves room, so that no written data is left behind in outgrown memory.
  void Reserve(std::size_t size) { bytes_.reserve(size); }
  // Writes into this memory from now on, from its beginning.
  void Reuse(std::vector<std::byte> memory) {
    bytes_ = std::move(memory);
    bytes_.clear();
  }
  template <std::unsigned_integral T>
  void Number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
  void Bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // Length first. Longer texts are cut: they are names and messages, and a cut one is better than none.
  void Text(std::string_view text, std::size_t longest) {
    text = text.substr(0, longest);
    Number(static_cast<std::uint32_t>(text.size()));
    Bytes(BytesOf(text));
  }

  std::size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> Take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> input) : rest_(input) {}

  template <std::unsigned_integral T>
  T Number() {
    const auto bytes = Bytes(sizeof(T));
    T value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) value |= static_cast<T>(static_cast<T>(bytes[i]) << (8 * i));
    return value;
  }
  // Empty on failure.
  std::span<const std::byte> Bytes(std::size_t size) {
    if (size > rest_.size()) {
      failed_ = true;
      rest_ = {};
      return {};
    }
    const auto bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return bytes;
  }
  template <std::size_t N>
  std::array<std::byte, N> Array() {
    std::array<std::byte, N> array{};
    const auto bytes = Bytes(N);
    if (!bytes.empty()) std::memcpy(array.data(), bytes.data(), N);
    return array;
  }
  std::string Text(std::size_t longest) {
    const auto size = Number<std::uint32_t>();
    if (size > longest) failed_ = true;
    const auto bytes = Bytes(failed_ ? 0 : size);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::span<const std::byte> Rest() { return Bytes(rest_.size()); }

  bool failed() const { return failed_; }
  // Every read found its bytes, and none are left over.
  bool Complete() const { return !failed_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

}  // namespace tutti::net
