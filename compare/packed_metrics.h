// PackedMetrics: the Metrics of a pair in as few bytes as they need, about 200 instead of 900. A
// step of many ranks has millions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "compare/metrics.h"

namespace tdump::compare {

// Reads like a Metrics, which is unpacked each time: where several fields are looked at take a
// copy. No reference into what -> and * give may be kept.
class PackedMetrics {
 public:
  PackedMetrics() = default;             // a Metrics{}, and takes one word
  PackedMetrics(const Metrics& metrics)  // NOLINT(google-explicit-constructor): it is one
      : bytes_(Pack(metrics)) {}
  PackedMetrics(const PackedMetrics& other) : bytes_(Copy(other.bytes())) {}
  PackedMetrics(PackedMetrics&&) noexcept = default;
  PackedMetrics& operator=(PackedMetrics other) noexcept {
    bytes_ = std::move(other.bytes_);
    return *this;
  }

  Metrics operator*() const { return Unpack(bytes()); }
  operator Metrics() const { return **this; }  // NOLINT(google-explicit-constructor): it is one
  class Held {
   public:
    explicit Held(Metrics metrics) : metrics_(std::move(metrics)) {}
    const Metrics* operator->() const { return &metrics_; }

   private:
    Metrics metrics_;
  };
  Held operator->() const { return Held(**this); }

  // Between processes of one build. Bytes that bytes() did not give are undefined behaviour; what
  // comes from elsewhere has a checksum of its transport.
  std::string_view bytes() const;
  static PackedMetrics FromBytes(std::string_view bytes);

 private:
  using Bytes = std::unique_ptr<char[]>;  // their number, then they
  static Bytes Pack(const Metrics& metrics);
  static Metrics Unpack(std::string_view bytes);
  static Bytes Copy(std::string_view bytes);

  Bytes bytes_;
};

}  // namespace tdump::compare
