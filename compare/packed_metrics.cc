#include "compare/packed_metrics.h"

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

namespace tdump::compare {
namespace {

// Packed are: a word of bits, in the order in which they were asked for, then numbers of variable
// length. A double is a bit, whether it is anything but 0, and then its eight bytes.

class Packer {
 public:
  template <class... Fields>
  void operator()(Fields&... fields) {
    (Add(fields), ...);
  }
  void Bit(bool bit) { bits_ |= uint64_t{bit} << bit_count_++; }
  uint64_t bits() const { return bits_; }
  const std::string& rest() const { return rest_; }

  void Add(bool value) { Bit(value); }
  void Add(uint64_t value) {
    for (; value >= 0x80; value >>= 7) rest_ += static_cast<char>(value | 0x80);
    rest_ += static_cast<char>(value);
  }
  void Add(double value) {
    const bool any = std::bit_cast<uint64_t>(value) != 0;
    Bit(any);
    if (any) rest_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Add(const std::string& text) {
    Add(uint64_t{text.size()});
    rest_ += text;
  }
  void Add(const std::vector<uint64_t>& numbers) {
    Add(uint64_t{numbers.size()});
    for (const uint64_t number : numbers) Add(number);
  }
  void Add(const std::array<uint64_t, kUlpBins>& counts) {
    uint64_t used = 0;
    for (const uint64_t count : counts) used += count != 0;
    Add(used);
    for (uint64_t bin = 0; bin < counts.size(); ++bin) {
      if (counts[bin] != 0) (*this)(bin, counts[bin]);
    }
  }
  void Add(const Worst& worst) {
    const auto& [position, a, b] = worst;
    (*this)(position, a, b);
  }
  void Add(const WorstChannel& channel) {
    const auto& [index, mean_error] = channel;
    (*this)(index, mean_error);
  }
  template <class T>
  void Add(const std::optional<T>& value) {
    Bit(value.has_value());
    if (value) Add(*value);
  }

 private:
  uint64_t bits_ = 0;
  int bit_count_ = 0;
  std::string rest_;
};

class Unpacker {
 public:
  Unpacker(uint64_t bits, std::string_view rest) : bits_(bits), rest_(rest) {}

  template <class... Fields>
  void operator()(Fields&... fields) {
    (Take(&fields), ...);
  }

 private:
  bool Bit() {
    const bool bit = bits_ & 1;
    bits_ >>= 1;
    return bit;
  }
  void Take(bool* value) { *value = Bit(); }
  void Take(uint64_t* value) {
    *value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      *value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return;
    }
  }
  uint64_t Number() {
    uint64_t number = 0;
    Take(&number);
    return number;
  }
  void Take(double* value) {
    *value = 0;
    if (!Bit()) return;
    std::memcpy(value, rest_.data(), sizeof(*value));
    rest_.remove_prefix(sizeof(*value));
  }
  void Take(std::string* text) {
    const uint64_t size = Number();
    *text = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }
  void Take(std::vector<uint64_t>* numbers) {
    numbers->resize(Number());
    for (uint64_t& number : *numbers) Take(&number);
  }
  void Take(std::array<uint64_t, kUlpBins>* counts) {
    for (uint64_t used = Number(); used > 0; --used) {
      const uint64_t bin = Number();
      Take(&(*counts)[bin]);
    }
  }
  void Take(Worst* worst) {
    auto& [position, a, b] = *worst;
    (*this)(position, a, b);
  }
  void Take(WorstChannel* channel) {
    auto& [index, mean_error] = *channel;
    (*this)(index, mean_error);
  }
  template <class T>
  void Take(std::optional<T>* value) {
    if (Bit()) Take(&value->emplace());
  }

  uint64_t bits_;
  std::string_view rest_;
};

// All fields, so that a new one does not compile until it is added.
template <class Archive, class M>
void WalkMetrics(Archive* archive, M* metrics) {
  auto& [elements, bits_equal, within, compared, max_abs, max_abs_text, max_rel, mean_abs, mean_rel,
         mean_error, rmse, cosine, sqnr_db, max_ulp, ulp, p50, p90, p99, p999, worst_channel,
         channels, rms_in_common, rms_a, rms_b, bound_abs, nan_a, nan_b, inf_a, inf_b, nan_mismatch,
         inf_mismatch, sign_mismatch, zero_sign_mismatch, numeric, has_worst, worst,
         worst_relative] = *metrics;
  (*archive)(elements, bits_equal, within, compared, max_abs, max_abs_text, max_rel, mean_abs,
             mean_rel, mean_error, rmse, cosine, sqnr_db, max_ulp, ulp, p50, p90, p99, p999,
             worst_channel, channels, rms_in_common, rms_a, rms_b, bound_abs, nan_a, nan_b, inf_a,
             inf_b, nan_mismatch, inf_mismatch, sign_mismatch, zero_sign_mismatch, numeric,
             has_worst, worst, worst_relative);
}

constexpr size_t kSize = sizeof(uint32_t), kBits = sizeof(uint64_t);

}  // namespace

PackedMetrics::Bytes PackedMetrics::Pack(const Metrics& metrics) {
  Packer packer;
  WalkMetrics(&packer, &metrics);
  const uint64_t bits = packer.bits();
  const auto size = static_cast<uint32_t>(kBits + packer.rest().size());
  Bytes bytes(new char[kSize + size]);
  std::memcpy(bytes.get(), &size, kSize);
  std::memcpy(bytes.get() + kSize, &bits, kBits);
  std::memcpy(bytes.get() + kSize + kBits, packer.rest().data(), packer.rest().size());
  return bytes;
}

Metrics PackedMetrics::Unpack(std::string_view bytes) {
  Metrics metrics;
  if (bytes.empty()) return metrics;
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data(), kBits);
  Unpacker unpacker(bits, bytes.substr(kBits));
  WalkMetrics(&unpacker, &metrics);
  return metrics;
}

PackedMetrics::Bytes PackedMetrics::Copy(std::string_view from) {
  if (from.empty()) return nullptr;
  const auto size = static_cast<uint32_t>(from.size());
  Bytes bytes(new char[kSize + size]);
  std::memcpy(bytes.get(), &size, kSize);
  std::memcpy(bytes.get() + kSize, from.data(), size);
  return bytes;
}

std::string_view PackedMetrics::bytes() const {
  if (!bytes_) return {};
  uint32_t size = 0;
  std::memcpy(&size, bytes_.get(), kSize);
  return {bytes_.get() + kSize, size};
}

PackedMetrics PackedMetrics::FromBytes(std::string_view bytes) {
  PackedMetrics packed;
  packed.bytes_ = Copy(bytes);
  return packed;
}

}  // namespace tdump::compare
