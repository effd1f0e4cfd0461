#include "collectors/torch/device_text.h"

#include <atomic>
#include <limits>
#include <memory>
#include <string>

namespace tdump::collectors {
namespace {

constexpr size_t kIndices = 2 + std::numeric_limits<c10::DeviceIndex>::max();  // and -1, for none
using TextsOfType = std::atomic<const std::string*>[kIndices];
TextsOfType texts[c10::COMPILE_TIME_MAX_DEVICE_TYPES];

}  // namespace

std::string_view DeviceText(c10::Device device) {
  auto& place = texts[static_cast<size_t>(device.type())][device.index() + 1];
  const std::string* text = place.load(std::memory_order_acquire);
  if (text != nullptr) return *text;
  auto made = std::make_unique<const std::string>(device.str());
  return place.compare_exchange_strong(text, made.get()) ? *made.release() : *text;
}

}  // namespace tdump::collectors
